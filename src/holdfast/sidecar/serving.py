"""From a socket to the last answer: starting the sidecar, and ending it in good order."""

import asyncio
import contextlib
import gc
import resource
import socket
import sys
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass

from uvicorn import Config, Server

from holdfast.assembly.ground import Ground
from holdfast.errors import HoldfastError
from holdfast.library import Holdfast
from holdfast.logs import log
from holdfast.metrics import Metrics
from holdfast.sidecar.access import Access, check_binding
from holdfast.sidecar.agents import AgentEndpoint, LoadTools
from holdfast.sidecar.checkpoints import CheckpointRoutes
from holdfast.sidecar.claims import ClaimRoutes
from holdfast.sidecar.connections import MOST_CONNECTIONS, ConnectionLimits
from holdfast.sidecar.courtesy import Courtesy
from holdfast.sidecar.dashboard.actions import DashboardActions
from holdfast.sidecar.dashboard.pages import DashboardPages
from holdfast.sidecar.decisions import DecisionRoutes
from holdfast.sidecar.events import EventRoutes
from holdfast.sidecar.guard import Guard
from holdfast.sidecar.health import HealthRoutes
from holdfast.sidecar.memory import share_heaps
from holdfast.sidecar.quick_connections import quick_protocol
from holdfast.sidecar.quick_lane import QuickLane
from holdfast.sidecar.service import Service
from holdfast.sidecar.submitting import SubmitEndpoint
from holdfast.sidecar.upkeep import UpkeepRoutes

# Together less than the 8 s that a stop may take: the write under way, then the answers under way.
DRAINER_GRACE_S = 6.0
ANSWERS_GRACE_S = 1
KEEP_ALIVE_S = 75
BACKLOG = 4096
# So many are taken in at once by asyncio, before those that are in have their turn; uvloop takes in one.
TAKEN_AT_ONCE = 32
# Files, sockets to GitHub and the like, beside the connections of clients.
SPARE_FILES = 200
# Several threads share one interpreter; with Python's 5 ms, each statement of a commit might wait that long.
SWITCH_INTERVAL_S = 0.001
# With Python's 700, 10, 10 a full collection of 50 ms and more, in which nobody is answered, comes every few
# seconds under load. What a request leaves behind is collected young; the full one still comes, rarely.
COLLECT_AFTER = (50_000, 50, 10)
_PRACTICE = b'{"run_id":"practice","trigger":"manual","state":{}}'


@dataclass(frozen=True, slots=True)
class Ending:
    """How serving ended: whether the worker and every read had finished, and what failed, if anything did."""

    is_all_done: bool
    failure: Exception | None


def serve(
    holdfast: Holdfast,
    assembly: Ground,
    metrics: Metrics,
    courtesy: Courtesy,
    *,
    on_ready: Callable[[str], None],
    load_tools: LoadTools | None = None,
) -> Ending:
    """Serve until the assembly's `stop` is set; then refuse, finish the write under way, and return.

    `load_tools` is called by the first request of an agent. Raises InvalidSettings for an address that needs
    a token, OSError if it cannot be had.
    """
    settings = assembly.settings
    check_binding(settings, assembly.api_tokens)
    share_heaps()
    practise(holdfast)
    with listen(settings.host, settings.port) as listener, even_interpreter():
        # Opened before the threads begin: what is made on first use is not made twice.
        for shard in assembly.shards:
            shard.spool, shard.worker, shard.reader  # noqa: B018
        service = Service(holdfast, assembly, metrics, courtesy, stop=assembly.stop)
        access = Access(settings, assembly.api_tokens, service.sessions)
        limits = ConnectionLimits(most_connections=_raise_file_limit())
        config = Config(
            build_app(service, access, load_tools),
            http=quick_protocol(limits, QuickLane(service, access)),
            ws="none",
            lifespan="off",
            log_config=None,
            log_level="critical",
            access_log=False,
            server_header=False,
            proxy_headers=False,
            timeout_keep_alive=KEEP_ALIVE_S,
            timeout_graceful_shutdown=ANSWERS_GRACE_S,
            backlog=TAKEN_AT_ONCE,
        )
        run = _run(service, _Server(config), listener, on_ready)
        with asyncio.Runner(loop_factory=config.get_loop_factory()) as runner:
            return runner.run(run)


def practise(holdfast: Holdfast) -> None:
    """Load what the first request would have to wait for: logs, and the rules that tell a credential.

    Nothing is saved. Where a checkpoint cannot be made, such as without a key or a folder, the first to send
    one is told.
    """
    log.bind()
    with contextlib.suppress(HoldfastError, OSError):
        holdfast.draft(_PRACTICE)


@contextlib.contextmanager
def even_interpreter() -> Iterator[None]:
    """Let no thread, and no collection of garbage, keep the answers waiting for long."""
    interval_s, thresholds = sys.getswitchinterval(), gc.get_threshold()
    sys.setswitchinterval(SWITCH_INTERVAL_S)
    gc.set_threshold(*COLLECT_AFTER)
    gc.collect()
    gc.freeze()
    try:
        yield
    finally:
        gc.unfreeze()
        gc.set_threshold(*thresholds)
        sys.setswitchinterval(interval_s)


def build_app(service: Service, access: Access, load_tools: LoadTools | None = None) -> Guard:
    """Return the application that serves `service` to those who have access."""
    pages = DashboardPages(service)
    actions = DashboardActions(service, pages)
    routes = [
        *SubmitEndpoint(service).routes(),
        *CheckpointRoutes(service).routes(),
        *DecisionRoutes(service).routes(),
        *ClaimRoutes(service).routes(),
        *UpkeepRoutes(service).routes(),
        *HealthRoutes(service).routes(),
        *EventRoutes(service.events, access.is_known).routes(),
        *AgentEndpoint(service, load_tools).routes(),
        *pages.routes(),
        *actions.routes(),
    ]
    return Guard(
        routes,
        access,
        service.metrics,
        is_stopping=lambda: service.is_stopping,
        is_debugging=service.assembly.settings.log_level == "debug",
        cleanse=service.assembly.redactor.redact_name,
        show=actions.refuse,
    )


async def _run(
    service: Service, server: "_Server", listener: socket.socket, on_ready: Callable[[str], None]
) -> Ending:
    service.start()
    stopped = _watch(service.stop)
    serving = asyncio.create_task(server.serve(sockets=[listener]))
    while not server.started and not serving.done():
        await asyncio.sleep(0.01)
    listener.listen(BACKLOG)  # the event loop has made it as short as TAKEN_AT_ONCE
    on_ready(url_of(listener))
    log.info("sidecar_started", url=url_of(listener))
    await asyncio.wait({stopped, serving}, return_when=asyncio.FIRST_COMPLETED)
    service.stop.set()
    service.announce()
    service.events.end()
    log.info("sidecar_stopping")
    is_worker_done = await asyncio.to_thread(service.drainer.join, DRAINER_GRACE_S)
    server.should_exit = True
    await serving
    have_threads_ended = await asyncio.to_thread(service.close)
    log.info("sidecar_stopped", is_worker_done=is_worker_done, have_threads_ended=have_threads_ended)
    return Ending(is_worker_done and have_threads_ended, service.failure)


def _watch(stop: threading.Event) -> "asyncio.Future[None]":
    """Return a future that is done once `stop` is set, wherever that happens."""
    loop = asyncio.get_running_loop()
    stopped: asyncio.Future[None] = loop.create_future()

    def tell() -> None:
        if not stopped.done():
            stopped.set_result(None)

    def wait() -> None:
        stop.wait()
        with contextlib.suppress(RuntimeError):  # the loop has ended for another reason
            loop.call_soon_threadsafe(tell)

    threading.Thread(target=wait, name="holdfast-stop", daemon=True).start()
    return stopped


class _Server(Server):
    """uvicorn's server without its signal handlers: the command has its own."""

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        yield


@contextlib.contextmanager
def listen(host: str, port: int) -> Iterator[socket.socket]:
    """Give a socket that listens there; port 0 is a free one. Raises OSError."""
    family, kind, protocol, _, address = socket.getaddrinfo(
        host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
    )[0]
    with socket.socket(family, kind, protocol) as listener:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind(address)
        listener.listen(BACKLOG)
        yield listener


def url_of(listener: socket.socket) -> str:
    """Return the URL by which a program on this machine reaches `listener`."""
    host, port = listener.getsockname()[:2]
    return f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"


def _raise_file_limit() -> int:
    """Let this process have as many connections as we allow, if the system does; return how many."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = MOST_CONNECTIONS + SPARE_FILES
    if soft != resource.RLIM_INFINITY and soft < wanted:
        soft = wanted if hard == resource.RLIM_INFINITY else min(wanted, hard)
        with contextlib.suppress(OSError, ValueError):
            resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
    return MOST_CONNECTIONS if soft == resource.RLIM_INFINITY else max(16, min(wanted, soft) - SPARE_FILES)
