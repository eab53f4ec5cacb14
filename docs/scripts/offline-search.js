// Browsers start no workers for pages that are opened as files. The search needs one: here it is a hidden frame.
if (location.protocol === "file:") {
  window.Worker = class extends EventTarget {
    constructor(url) {
      super()
      const frame = document.createElement("iframe")
      frame.hidden = true
      document.body.append(frame)
      const inside = frame.contentWindow
      inside.postMessage = data => this.dispatchEvent(new MessageEvent("message", { data }))
      inside.importScripts = (...urls) => Promise.all(urls.map(load))
      this.inside = inside
      this.ready = load(url)

      function load(source) {
        return new Promise((done, failed) => {
          const script = inside.document.createElement("script")
          script.src = new URL(source, location.href)
          script.onload = done
          script.onerror = failed
          inside.document.body.append(script)
        })
      }
    }

    postMessage(data) {
      this.ready.then(() => this.inside.dispatchEvent(new MessageEvent("message", { data })))
    }

    set onmessage(listener) {
      this.addEventListener("message", listener)
    }

    terminate() {}
  }
}
