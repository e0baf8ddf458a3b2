// A page that is opened as a file may start no worker: there the search runs in a hidden frame, which speaks as a worker does.
if (location.protocol === "file:") {
  window.IFrameWorker = class extends EventTarget {
    constructor(address) {
      super()
      const frame = document.createElement("iframe")
      frame.hidden = true
      document.body.append(frame)
      const inner = frame.contentWindow
      const load = src => new Promise((done, failed) => {
        const script = inner.document.createElement("script")
        Object.assign(script, { src, onload: done, onerror: failed })
        inner.document.head.append(script)
      })
      inner.document.open()
      inner.document.close()
      inner.postMessage = data => this.dispatchEvent(new MessageEvent("message", { data }))
      inner.importScripts = (...all) => all.reduce((before, one) => before.then(() => load(one)), Promise.resolve())
      this.inner = inner
      this.ready = load(address)
    }

    postMessage(data) {
      this.ready.then(() => this.inner.dispatchEvent(new MessageEvent("message", { data })))
    }
  }
  window.Worker = window.IFrameWorker
}
