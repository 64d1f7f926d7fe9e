# shellcheck shell=bash
# Sourced by scripts/setup and scripts/pin.

# A pyenv shim exists but fails, and Debian ships a python3 without ensurepip: only running it tells.
is_usable_python() {
  "$1" -I -c 'import ensurepip, sys, venv; sys.exit(sys.version_info < (3, 11))' >/dev/null 2>&1
}

# Prints the command of a Python of at least 3.11: $PYTHON when it is set, else the first on PATH.
choose_python() {
  local candidate
  if [[ -n "${PYTHON:-}" ]]; then
    if is_usable_python "$PYTHON"; then
      printf '%s\n' "$PYTHON"
      return 0
    fi
    printf 'holdfast: PYTHON=%s is not a working Python 3.11 or later with venv and ensurepip.\n' "$PYTHON" >&2
    return 1
  fi
  for candidate in python3 python3.14 python3.13 python3.12 python3.11 python; do
    if is_usable_python "$candidate"; then
      printf '%s\n' "$candidate"
      return 0
    fi
  done
  printf '%s\n' \
    'holdfast: found no Python 3.11 or later on PATH that can make a virtual environment.' \
    '  Install one (on Debian and Ubuntu also its package python3-venv), or name it: PYTHON=/path/to/python3' >&2
  return 1
}
