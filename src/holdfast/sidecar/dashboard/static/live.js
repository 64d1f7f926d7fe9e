// Local times, ages, and pages that follow along. Without this script everything can be read by reloading.
"use strict";

// Pages that hear of the same thing do not all ask at the same moment.
const SOON_MS = 2000 + 2000 * Math.random();

function age(seconds) {
  const ahead = seconds < 0;
  const units = [[86400, "day"], [3600, "hour"], [60, "minute"], [1, "second"]];
  const size = Math.abs(seconds);
  const [length, name] = units.find(([each]) => size >= each) || units[3];
  return new Intl.RelativeTimeFormat("en", { numeric: "auto" }).format(Math.round((ahead ? 1 : -1) * size / length), name);
}

function showTimes(root) {
  for (const time of root.querySelectorAll("time[datetime]")) {
    const moment = new Date(time.getAttribute("datetime"));
    if (Number.isNaN(moment.getTime())) continue;
    const local = moment.toLocaleString(undefined, { dateStyle: "medium", timeStyle: "medium" });
    const utc = moment.toISOString().replace("T", " ").replace(/\.\d+Z/, " UTC");
    const beside = document.createElement("span");
    beside.textContent = ` (${utc.slice(11)}, ${age((Date.now() - moment) / 1000)})`;
    time.replaceChildren(local, beside);
    time.title = utc;
  }
}

const waiting = new Map();

// Whether someone is at this part just now: a link has the focus, or text is being copied.
function isInUse(part) {
  const chosen = getSelection();
  return part.contains(document.activeElement) || (!chosen.isCollapsed && chosen.containsNode(part, true));
}

// Fetch a part of the page again, at most once in a while, whatever happens in between. What nobody sees waits.
function refresh(part) {
  if (waiting.has(part)) return;
  waiting.set(part, setTimeout(async () => {
    waiting.delete(part);
    if (document.hidden || isInUse(part)) { refresh(part); return; }
    const answer = await fetch(part.dataset.src, { headers: { Accept: "text/html" } });
    if (!answer.ok) return;
    const page = new DOMParser().parseFromString(await answer.text(), "text/html");
    const open = [...part.querySelectorAll("details")].map((each) => each.open);
    part.replaceChildren(...page.body.childNodes);
    part.querySelectorAll("details").forEach((each, number) => { each.open = open[number] || each.open; });
    showTimes(part);
  }, SOON_MS));
}

function follow() {
  const live = document.getElementById("live");
  const parts = [...document.querySelectorAll("[data-src]")];
  const run = document.querySelector("[data-run]");
  const runs = document.querySelector("[data-runs]");
  const news = document.getElementById("news");
  if (!live || (!parts.length && !run && !runs)) return;
  const feed = new EventSource("/v1/events");
  feed.onopen = () => { live.textContent = "Live: this page follows along."; };
  feed.onerror = () => {
    live.textContent = feed.readyState === EventSource.CLOSED
      ? "Not live any more: reload the page, and log in again if you are asked to."
      : "Not live: trying to reach the sidecar again.";
  };
  for (const kind of ["spooled", "verified", "refused", "budget", "outage", "drained", "missed"]) {
    feed.addEventListener(kind, (event) => {
      for (const part of parts) {
        if (kind === "missed" || part.dataset.events.split(" ").includes(kind)) refresh(part);
      }
      const told = JSON.parse(event.data);
      if (run && told.run_id === run.dataset.run) tellOfRun(kind, told, news);
      if (runs && kind === "spooled") tellOfRuns(told, news);
    });
  }
  addEventListener("pagehide", () => feed.close());
}

function tellOfRun(kind, told, news) {
  const row = document.querySelector(`[data-checkpoint="${CSS.escape(told.checkpoint_id)}"] .progress`);
  if (row) {
    row.textContent = kind === "verified" ? "stored" : kind;
    return;
  }
  say(news, `Checkpoint ${told.sequence_number} is ${kind}. `, location.pathname);
}

function tellOfRuns(told, news) {
  const row = document.querySelector(`[data-row="${CSS.escape(told.run_id)}"]`);
  if (!row) {
    say(news, `There is something new of ${told.run_id}. `, location.href);
    return;
  }
  row.querySelector("time").setAttribute("datetime", new Date().toISOString());
  showTimes(row);
}

function say(news, text, address) {
  const link = document.createElement("a");
  link.href = address;
  link.textContent = "Show it";
  news.replaceChildren(text, link);
  news.hidden = false;
}

showTimes(document);
follow();
