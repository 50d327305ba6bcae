// What survives a reload: the states and the history, in the browser's own database.

const NAME = 'graphls', SHELF = 'runs';

/** @param {IDBTransactionMode} mode @param {(shelf: IDBObjectStore) => IDBRequest} act @returns {Promise<any>} */
function ask(mode, act) {
  return new Promise((resolve, reject) => {
    const opening = indexedDB.open(NAME, 1);
    opening.onupgradeneeded = () => opening.result.createObjectStore(SHELF);
    opening.onerror = () => reject(opening.error);
    opening.onsuccess = () => {
      const database = opening.result, asked = act(database.transaction(SHELF, mode).objectStore(SHELF));
      asked.onsuccess = () => { database.close(); resolve(asked.result); };
      asked.onerror = () => { database.close(); reject(asked.error); };
    };
  });
}

/** @param {string} key @param {any} run */
export const keep = (key, run) => ask('readwrite', (shelf) => shelf.put(run, key)).catch(() => undefined);

/** @param {string} key @returns {Promise<any>} what was kept, or undefined */
export const kept = (key) => ask('readonly', (shelf) => shelf.get(key)).catch(() => undefined);

/** @param {string} key */
export const forget = (key) => ask('readwrite', (shelf) => shelf.delete(key)).catch(() => undefined);
