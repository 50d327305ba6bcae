// Browsers start no workers for pages that are opened from disk. There the search of the theme runs in a hidden frame,
// by the same messages.
if (location.protocol === "file:") {
  const prelude = `
    postMessage = message => parent.postMessage(message, "*");
    importScripts = (...urls) => urls.reduce((loaded, url) => loaded.then(() => new Promise((resolve, reject) => {
      const script = Object.assign(document.createElement("script"), {src: url, onload: resolve, onerror: reject});
      document.body.append(script);
    })), Promise.resolve());`;

  window.Worker = class extends EventTarget {
    constructor(url) {
      super();
      this.frame = Object.assign(document.createElement("iframe"), {hidden: true});
      document.body.append(this.frame);
      const inside = this.frame.contentWindow;
      this.loaded = new Promise((resolve, reject) => {
        inside.document.open();
        inside.document.write(`<body><script>${prelude}</` + `script><script src="${url}"></` + "script></body>");
        inside.document.close();
        inside.onload = resolve;
        inside.onerror = reject;
      });
      window.addEventListener("message", event => {
        if (event.source !== inside) return;
        this.dispatchEvent(new MessageEvent("message", {data: event.data}));
        this.onmessage?.(event);
      });
    }

    postMessage(data) {
      this.loaded.then(() => this.frame.contentWindow.dispatchEvent(new MessageEvent("message", {data})));
    }

    terminate() {
      this.frame.remove();
    }
  };
}
