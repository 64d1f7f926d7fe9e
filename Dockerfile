# The sidecar. It needs a token, because it listens where other containers reach it:
#   docker build -t holdfast .
#   docker run -e HOLDFAST_API_TOKEN=… -e HOLDFAST_REPO=you/checkpoints -e HOLDFAST_TOKEN=… -v holdfast:/data holdfast
FROM python:3.13-slim AS build
WORKDIR /source
COPY pyproject.toml README.md LICENSE ./
COPY scripts/requirements.txt scripts/hashes.txt scripts/
COPY src src
# The driver of the shared queue, too: HOLDFAST_DATABASE_URL then needs nothing more.
RUN python -m venv /venv \
    && awk '/^[^ ]/ {wanted = /^psycopg/} wanted' scripts/hashes.txt > postgres.txt \
    && /venv/bin/pip install --no-cache-dir --no-deps --require-hashes --requirement scripts/requirements.txt \
    && /venv/bin/pip install --no-cache-dir --no-deps --require-hashes --requirement postgres.txt \
    && /venv/bin/pip install --no-cache-dir --no-deps --no-build-isolation .

FROM python:3.13-slim
RUN useradd --system --uid 10001 --home-dir /data --shell /usr/sbin/nologin holdfast \
    && install -d -o holdfast -g holdfast -m 0700 /data
COPY --from=build /venv /venv
ENV PATH=/venv/bin:$PATH \
    PYTHONDONTWRITEBYTECODE=1 \
    HOLDFAST_DATA_DIR=/data \
    HOLDFAST_HOST=0.0.0.0 \
    HOLDFAST_LOG_FORMAT=json
USER 10001
VOLUME /data
EXPOSE 8723
# Less than the 10 s after which a container is killed: the sidecar ends within 8.
STOPSIGNAL SIGTERM
HEALTHCHECK --interval=10s --timeout=3s --start-period=15s --retries=3 \
    CMD ["python", "-c", "import os, urllib.request; urllib.request.urlopen(f'http://127.0.0.1:{os.environ.get(\"HOLDFAST_PORT\", 8723)}/healthz', timeout=2)"]
ENTRYPOINT ["holdfast"]
CMD ["serve"]
