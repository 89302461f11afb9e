// What the board says now. Everybody who shows some of it is called when it changes.

/** @typedef {Record<string, any>} Row */
export const board = {
  /** @type {Map<string, Row>} */
  rows: new Map(),
  /** @type {Record<string, string[]>} */
  sections: { needs: [], working: [], waiting: [], done: [] },
  /** @type {Record<string, number>} */
  more: {},
  /** @type {Record<string, number>} */
  counts: {},
  nodes: [0, 0],
  /** @type {string[]} */
  gone: [],
  /** @type {Record<string, any>} */
  budgets: {},
  /** @type {Record<string, any>} */
  pauses: {},
  known: false,
  /** @type {Set<() => void>} */
  changed: new Set(),
};

/** @param {any} message a whole board, or what changed of it */
export function takeBoard(message) {
  if (message.error) return;
  if (message.full) board.rows.clear();
  for (const [id, row] of Object.entries(message.rows)) board.rows.set(id, /** @type {Row} */ (row));
  const shown = new Set(Object.values(message.sections).flat());
  for (const id of board.rows.keys()) if (!shown.has(id)) board.rows.delete(id);
  for (const name of ["sections", "more", "counts", "nodes", "gone", "budgets", "pauses"]) {
    /** @type {any} */ (board)[name] = message[name];
  }
  board.known = true;
  for (const call of board.changed) call();
}

/** What a person writes stays with them until it is sent. */
export const drafts = {
  /** @param {string} key */
  get: (key) => localStorage.getItem(`draft ${key}`) ?? "",
  /** @param {string} key @param {string} text */
  set: (key, text) => { if (text) localStorage.setItem(`draft ${key}`, text); else localStorage.removeItem(`draft ${key}`); },
};

/** @param {string} name @param {string} [otherwise] */
export const setting = (name, otherwise = "") => localStorage.getItem(`set ${name}`) ?? otherwise;
/** @param {string} name @param {string} value */
export const keep = (name, value) => localStorage.setItem(`set ${name}`, value);
