//! Simulates the kubelet of worker pods: it starts the command of each pod as a process of this machine and reports its
//! end to the API, as a kubelet does with a container.

use super::support::{Cluster, pod_path};
use serde_json::{Value, json};
use std::io::Read as _;
use std::os::unix::process::ExitStatusExt as _;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};
use std::thread::JoinHandle;
use std::time::Duration;

/// How the kubelet treats pods.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Treatment {
    /// It starts their command.
    Start,
    /// It starts it twice, the second time under another name, as a second pod of the Job.
    StartTwice,
    /// It cannot pull their image.
    NoImage,
}

/// A process that runs the command of a pod.
struct StartedPod {
    /// The object in the API. A second process has that of the first, as it has none of its own.
    uid: String,
    is_second: bool,
    name: String,
    process: Child,
    /// Whether it was told to stop.
    stopped: bool,
    /// Whether the API knows its end.
    reported: bool,
}

pub struct WorkerKubelet {
    api: &'static Cluster,
    namespace: String,
    started: Arc<Mutex<Vec<StartedPod>>>,
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl WorkerKubelet {
    /// Creates the namespace and runs its pods until it is dropped.
    pub fn start(api: &'static Cluster, namespace: &str, treatment: Treatment) -> Self {
        api.kubectl(&["create", "namespace", namespace]);
        // Pods need the service account that a controller creates.
        api.until(&["-n", namespace, "get", "serviceaccount", "default"]);
        let node = json!({ "apiVersion": "v1", "kind": "Node", "metadata": { "name": node_name(namespace) } });
        api.kubectl_with(&["apply", "-f", "-"], &node.to_string());
        let (stop, started) = (Arc::new(AtomicBool::new(false)), Arc::new(Mutex::new(Vec::new())));
        let (ends, pods, own) = (stop.clone(), started.clone(), namespace.to_owned());
        let thread = std::thread::spawn(move || {
            while !ends.load(Ordering::Relaxed) {
                turn(api, &own, treatment, &mut pods.lock().expect("a lock"));
                std::thread::sleep(Duration::from_millis(100));
            }
        });
        Self { api, namespace: namespace.to_owned(), started, stop, thread: Some(thread) }
    }

    fn pods(&self) -> MutexGuard<'_, Vec<StartedPod>> {
        self.started.lock().expect("a lock")
    }

    pub fn namespace(&self) -> &str {
        &self.namespace
    }

    /// Returns the processes that run, each with the name of its pod.
    pub fn running(&self) -> Vec<(String, u32)> {
        let mut pods = self.pods();
        let running = pods.iter_mut().filter_map(|pod| {
            let runs = matches!(pod.process.try_wait(), Ok(None));
            runs.then(|| (pod.name.clone(), pod.process.id()))
        });
        running.collect()
    }

    /// Waits for the end of all processes, and returns the exit codes of those that were started second, and what they
    /// printed.
    pub fn finish_second_starts(&self) -> Vec<(i32, String)> {
        self.api.wait(|| self.running().is_empty());
        let mut pods = self.pods();
        let second = pods.iter_mut().filter(|pod| pod.is_second);
        second
            .map(|pod| {
                let mut printed = String::new();
                pod.process.stderr.take().expect("a pipe").read_to_string(&mut printed).expect("text");
                (pod.process.wait().expect("its end").code().unwrap_or(-1), printed)
            })
            .collect()
    }

    /// Returns how many commands were started.
    pub fn count_started(&self) -> usize {
        self.pods().len()
    }

    /// Kills a process, as the kernel does when a container has too little memory.
    pub fn kill(&self, process: u32) {
        signal(process, rustix::process::Signal::KILL);
    }
}

impl Drop for WorkerKubelet {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        if let Some(thread) = self.thread.take() {
            // A panic of the thread has already been printed.
            drop(thread.join());
        }
        for pod in self.pods().iter_mut() {
            let _ = pod.process.kill();
            let _ = pod.process.wait();
        }
        self.api.forget(&node_name(&self.namespace));
    }
}

fn node_name(namespace: &str) -> String {
    format!("kubelet-{namespace}")
}

fn signal(process: u32, signal: rustix::process::Signal) {
    let process = rustix::process::Pid::from_raw(process.try_into().expect("a pid")).expect("a pid");
    // It may have ended.
    let _ = rustix::process::kill_process(process, signal);
}

fn turn(api: &Cluster, namespace: &str, treatment: Treatment, started: &mut Vec<StartedPod>) {
    let pods = api.pods(namespace);
    for pod in &pods {
        let deleting = !pod["metadata"]["deletionTimestamp"].is_null();
        let uid = pod["metadata"]["uid"].as_str().expect("a uid");
        match started.iter_mut().find(|one| one.uid == uid) {
            Some(one) => follow_pod(api, pod, one, deleting),
            None if deleting => api.end_pod(pod),
            None => started.extend(start_pod(api, namespace, pod, treatment)),
        }
    }
    let exists = |one: &StartedPod| pods.iter().any(|pod| pod["metadata"]["uid"] == one.uid.as_str());
    // Also second processes: the deletion of a Job ends all its pods.
    for gone in started.iter_mut().filter(|one| !one.stopped && !exists(one)) {
        gone.stopped = true;
        signal(gone.process.id(), rustix::process::Signal::TERM);
    }
}

fn start_pod(api: &Cluster, namespace: &str, pod: &Value, treatment: Treatment) -> Vec<StartedPod> {
    let name = pod["metadata"]["name"].as_str().expect("a name");
    let uid = pod["metadata"]["uid"].as_str().expect("a uid");
    if treatment == Treatment::NoImage {
        let message = "Back-off pulling image \"test.example/forge:1\"";
        let waiting = json!({ "name": "worker", "image": "x:1", "imageID": "", "ready": false, "restartCount": 0, "state": { "waiting": { "reason": "ImagePullBackOff", "message": message } } });
        api.tell(&pod_path(pod), &json!({ "phase": "Pending", "containerStatuses": [waiting] }));
        return Vec::new();
    }
    api.bind_pod(pod, &node_name(namespace));
    let start = |name: &str, is_second: bool| StartedPod {
        uid: uid.to_owned(),
        is_second,
        name: name.to_owned(),
        process: start_command(pod, name),
        stopped: false,
        reported: false,
    };
    let mut started = vec![start(name, false)];
    if treatment == Treatment::StartTwice {
        // The pod that the API knows is the one that does the task.
        let words: Vec<String> =
            pod["spec"]["containers"][0]["command"].as_array().expect("a list").iter().map(text).collect();
        let channel = words.iter().position(|word| word == "--channel").expect("a channel");
        api.wait(|| std::path::Path::new(&words[channel + 1]).join("claim").exists());
        started.push(start(&format!("{name}-again"), true));
    }
    api.tell(&pod_path(pod), &json!({ "phase": "Running" }));
    started
}

fn start_command(pod: &Value, name: &str) -> Child {
    let container = &pod["spec"]["containers"][0];
    let words: Vec<String> = container["command"].as_array().expect("a command").iter().map(text).collect();
    let words: Vec<String> = words.iter().map(|word| word.replace("$(FORGE_POD)", name)).collect();
    assert_eq!(words[0], "forge");
    let mut command = Command::new(env!("CARGO_BIN_EXE_forge"));
    command.args(&words[1..]).current_dir("/").env_clear();
    command.env("PATH", "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin").env("LANG", "C.UTF-8");
    command.env("HOME", concat!(env!("CARGO_TARGET_TMPDIR"), "/home"));
    command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::piped());
    command.spawn().expect("forge starts")
}

fn text(value: &Value) -> String {
    value.as_str().expect("text").to_owned()
}

/// Reports the end of a process, and ends one whose pod is being deleted.
fn follow_pod(api: &Cluster, pod: &Value, one: &mut StartedPod, deleting: bool) {
    match one.process.try_wait().expect("a process of this one") {
        Some(status) if !one.reported => {
            one.reported = true;
            let mut printed = String::new();
            if let Some(mut pipe) = one.process.stderr.take() {
                // What is not text is of no use for a message.
                let _ = pipe.read_to_string(&mut printed);
            }
            api.tell(&pod_path(pod), &end_status(status, &printed));
        }
        Some(_) if deleting => api.end_pod(pod),
        None if deleting && !one.stopped => {
            one.stopped = true;
            signal(one.process.id(), rustix::process::Signal::TERM);
        }
        _ => {}
    }
}

fn end_status(status: ExitStatus, printed: &str) -> Value {
    let code = status.code().unwrap_or_else(|| 128 + status.signal().unwrap_or(0));
    let (phase, reason) = match code {
        0 => ("Succeeded", "Completed"),
        137 => ("Failed", "OOMKilled"),
        _ => ("Failed", "Error"),
    };
    let terminated = json!({ "exitCode": code, "reason": reason, "message": printed });
    let status = json!({ "name": "worker", "image": "x:1", "imageID": "", "ready": false, "restartCount": 0, "state": { "terminated": terminated } });
    json!({ "phase": phase, "containerStatuses": [status] })
}
