// Calls of the HTTP interface. What fails is an Error with the server's own words.

export class Failed extends Error {
  /** @param {number} status @param {string} code @param {string} message */
  constructor(status, code, message) {
    super(message);
    this.status = status;
    this.code = code;
  }
}

/** @param {string} method @param {string} path @param {any} [body] @param {Record<string, string>} [headers] */
async function request(method, path, body, headers = {}) {
  let answer;
  try {
    answer = await fetch(path, {
      method,
      headers: body === undefined ? headers : { "content-type": "application/json", ...headers },
      body: body === undefined ? undefined : JSON.stringify(body),
      credentials: "same-origin",
    });
  } catch {
    throw new Failed(0, "away", "the server does not answer: nothing was sent");
  }
  const text = await answer.text();
  if (answer.headers.get("content-type")?.startsWith("application/json")) {
    const value = JSON.parse(text);
    if (!answer.ok) throw new Failed(answer.status, value.error?.code ?? "", value.error?.message ?? answer.statusText);
    return value;
  }
  if (!answer.ok) throw new Failed(answer.status, "", text || answer.statusText);
  return text;
}

/** @param {string} path */
export const get = (path) => request("GET", `/api/v1${path}`);
/** @param {string} path @param {any} [body] @param {Record<string, string>} [headers] */
export const post = (path, body = {}, headers) => request("POST", `/api/v1${path}`, body, headers);
/** @param {string} path @param {any} body */
export const change = (path, body) => request("PUT", `/api/v1${path}`, body);
/** @param {string} path */
export const remove = (path) => request("DELETE", `/api/v1${path}`);
/** @param {string} code */
export const signIn = (code) => request("POST", "/login", { code });
