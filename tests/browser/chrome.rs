//! A headless browser, controlled by the DevTools protocol over two pipes: no port is opened, and no driver is needed.

use base64::Engine;
use serde_json::{Value, json};
use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::time::Duration;

/// Longer than any answer takes, even if other tests run at the same time.
const PATIENCE: Duration = Duration::from_secs(60);

/// Records the violations of the page's policy.
const WATCH: &str = "window.__refused = []; addEventListener('securitypolicyviolation', \
                     (event) => window.__refused.push(event.violatedDirective + ' ' + event.blockedURI));";

/// A browser with one page.
pub struct Chrome {
    child: Child,
    input: ChildStdin,
    messages: Receiver<Value>,
    last: u64,
    session: Option<String>,
    /// Messages that are not answers.
    events: Vec<Value>,
    _profile: tempfile::TempDir,
}

/// Returns a browser; prints that the test is skipped if none is installed.
pub fn start() -> Option<Chrome> {
    match Command::new("sh").args(["-c", "command -v chromium"]).output() {
        Ok(output) if output.status.success() => Some(Chrome::new()),
        _ => {
            eprintln!("skipped: chromium is not installed");
            None
        }
    }
}

impl Chrome {
    fn new() -> Self {
        let profile = tempfile::tempdir().unwrap();
        let flags = ["--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--no-first-run"];
        let quiet = ["--disable-background-networking", "--disable-component-update", "--disable-sync"];
        // The browser reads commands from descriptor 3 and answers on 4.
        let mut command = Command::new("sh");
        command.args([
            "-c",
            "exec chromium \"$@\" 3<&0 4>&1 </dev/null >/dev/null 2>&1",
            "sh",
            "--remote-debugging-pipe",
        ]);
        command.args(flags).args(quiet).arg(format!("--user-data-dir={}", profile.path().display()));
        let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
        let (sender, messages) = channel();
        let mut output = BufReader::new(child.stdout.take().unwrap());
        std::thread::spawn(move || {
            let mut bytes = Vec::new();
            while output.read_until(0, &mut bytes).is_ok_and(|length| length > 0) {
                bytes.pop();
                let _ = sender.send(serde_json::from_slice(&bytes).unwrap());
                bytes.clear();
            }
        });
        let input = child.stdin.take().unwrap();
        let mut chrome = Self { child, input, messages, last: 0, session: None, events: Vec::new(), _profile: profile };
        chrome.attach();
        chrome
    }

    fn attach(&mut self) {
        self.session = None;
        let target = self.call("Target.createTarget", json!({ "url": "about:blank" }))["targetId"].clone();
        let session = self.call("Target.attachToTarget", json!({ "targetId": target, "flatten": true }));
        self.session = session["sessionId"].as_str().map(str::to_owned);
        for domain in ["Page", "Runtime", "Log", "Network"] {
            self.call(&format!("{domain}.enable"), json!({}));
        }
        // Metrics count the time that a processor works for the page: other load on this machine does not change them.
        self.call("Performance.enable", json!({ "timeDomain": "threadTicks" }));
        self.call("Page.addScriptToEvaluateOnNewDocument", json!({ "source": WATCH }));
        self.screen(1280, 900, false);
    }

    /// Sends a command and returns its result.
    pub fn call(&mut self, method: &str, params: Value) -> Value {
        self.last += 1;
        let mut message = json!({ "id": self.last, "method": method, "params": params });
        if let Some(session) = &self.session {
            message["sessionId"] = session.as_str().into();
        }
        self.input.write_all(format!("{message}\0").as_bytes()).unwrap();
        loop {
            let answer = self.messages.recv_timeout(PATIENCE).unwrap_or_else(|_| panic!("no answer to `{method}`"));
            match answer["id"].as_u64() {
                Some(id) if id == self.last => {
                    assert!(answer["error"].is_null(), "{method}: {}", answer["error"]);
                    return answer["result"].clone();
                }
                _ => self.events.push(answer),
            }
        }
    }

    /// Sets the size of the window; a phone also has a higher pixel density.
    pub fn screen(&mut self, width: u32, height: u32, is_phone: bool) {
        let scale = if is_phone { 2 } else { 1 };
        let screen = json!({ "width": width, "height": height, "deviceScaleFactor": scale, "mobile": is_phone });
        self.call("Emulation.setDeviceMetricsOverride", screen);
    }

    /// Sets the user's preferred color scheme: `light` or `dark`.
    pub fn prefers(&mut self, scheme: &str) {
        let features = json!({ "features": [{ "name": "prefers-color-scheme", "value": scheme }] });
        self.call("Emulation.setEmulatedMedia", features);
    }

    /// Opens a file and waits until it is loaded and drawn.
    pub fn open(&mut self, file: &Path, fragment: &str) {
        self.events.clear();
        // The browser reloads the page only if the address changes.
        self.call("Page.navigate", json!({ "url": "about:blank" }));
        self.call("Page.navigate", json!({ "url": format!("file://{}{fragment}", file.display()) }));
        let done = "new Promise((done) => { const look = () => location.protocol === 'file:' && \
                    performance.getEntriesByType('navigation')[0]?.loadEventEnd > 0 ? done(true) : setTimeout(look, 10); look() })";
        self.evaluate(done);
        // Waits until the changes by the script are drawn, too.
        self.evaluate("new Promise((done) => requestAnimationFrame(() => setTimeout(() => done(performance.now()))))");
    }

    /// Opens a file and returns the time in milliseconds that its main thread worked until it was drawn.
    pub fn load_ms(&mut self, file: &Path) -> f64 {
        // A page of its own has a process of its own, whose count begins at zero.
        self.attach();
        self.open(file, "");
        self.worked_ms()
    }

    /// Returns the time in milliseconds that the main thread of the page's process has worked so far.
    pub fn worked_ms(&mut self) -> f64 {
        let metrics = self.call("Performance.getMetrics", json!({}))["metrics"].clone();
        let all = metrics.as_array().unwrap();
        let tasks = all.iter().find(|metric| metric["name"] == "TaskDuration").expect("the time of all tasks");
        1000.0 * tasks["value"].as_f64().unwrap()
    }

    /// Returns the value of an expression in the page, after its promise is settled.
    pub fn evaluate(&mut self, expression: &str) -> Value {
        let asked = json!({ "expression": expression, "returnByValue": true, "awaitPromise": true });
        let answer = self.call("Runtime.evaluate", asked);
        assert!(answer["exceptionDetails"].is_null(), "{expression}: {}", answer["exceptionDetails"]);
        answer["result"]["value"].clone()
    }

    /// Returns the value of an expression as text.
    pub fn text(&mut self, expression: &str) -> String {
        self.evaluate(expression).as_str().unwrap_or_default().to_owned()
    }

    /// Returns errors in the page, violations of its policy, and its requests to other servers.
    pub fn troubles(&mut self) -> Vec<String> {
        let refused = self.evaluate("window.__refused");
        let mut troubles: Vec<String> =
            refused.as_array().into_iter().flatten().map(|what| format!("refused {what}")).collect();
        for event in &self.events {
            let (method, params) = (event["method"].as_str().unwrap_or_default(), &event["params"]);
            let url = params["request"]["url"].as_str().unwrap_or_default();
            match method {
                "Log.entryAdded"
                | "Runtime.exceptionThrown"
                | "Runtime.consoleAPICalled"
                | "Page.javascriptDialogOpening" => {
                    troubles.push(format!("{method}: {params}"));
                }
                "Network.requestWillBeSent" if !["file:", "data:", "about:"].iter().any(|own| url.starts_with(own)) => {
                    troubles.push(format!("requested {url}"));
                }
                _ => {}
            }
        }
        troubles
    }

    /// Saves a screenshot in `$FORGE_SCREENSHOTS`, if that is set.
    pub fn picture(&mut self, name: &str) {
        let Some(folder) = std::env::var_os("FORGE_SCREENSHOTS") else { return };
        let data = self.call("Page.captureScreenshot", json!({ "format": "png" }))["data"].clone();
        let bytes = base64::engine::general_purpose::STANDARD.decode(data.as_str().unwrap()).unwrap();
        std::fs::write(Path::new(&folder).join(format!("reports-{name}.png")), bytes).unwrap();
    }
}

impl Drop for Chrome {
    fn drop(&mut self) {
        // The browser exits by itself if it still can; otherwise it is killed.
        let close = json!({ "id": u32::MAX, "method": "Browser.close" });
        let _ = self.input.write_all(format!("{close}\0").as_bytes());
        for _ in 0..100 {
            if self.child.try_wait().is_ok_and(|ended| ended.is_some()) {
                return;
            }
            std::thread::sleep(Duration::from_millis(20));
        }
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
