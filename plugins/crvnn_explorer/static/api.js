// What the page asks the server for. An error has a message for people.

async function read(response) {
  let data = null;
  try {
    data = await response.json();
  } catch {
    throw new Error(`The server's answer cannot be read (${response.status}).`);
  }
  if (!response.ok) throw new Error(data.error ?? `The server refused (${response.status}).`);
  return data;
}

async function send(path, body) {
  let response;
  try {
    response = await fetch(path, body && {
      method: "POST",
      headers: { "Content-Type": "application/json" },
      body: JSON.stringify(body),
    });
  } catch {
    throw new Error("The server does not answer. Is 'crvnn explore' still running?");
  }
  return read(response);
}

export const models = () => send("/api/models");
export const example = (model, number) =>
  send(`/api/example/${number}?model=${encodeURIComponent(model)}`);
export const inspect = (question) => send("/api/inspect", question);
export const neighbours = (question, sequence, step) =>
  send(`/api/neighbours/${sequence}/${step}`, question);

/** Calls `work` with the latest of many wishes: after a pause, and never twice at once. */
export function latest(work, pause = 140) {
  let timer = null, busy = false, waiting = false;
  async function run() {
    if (busy) {
      waiting = true;
      return;
    }
    busy = true;
    try {
      await work();
    } finally {
      busy = false;
      if (waiting) {
        waiting = false;
        run();
      }
    }
  }
  return (now = false) => {
    clearTimeout(timer);
    timer = setTimeout(run, now ? 0 : pause);
  };
}
