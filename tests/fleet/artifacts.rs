//! Artifacts on real hosts: sent and resumed, fetched by the host, and rejected if they do not match the declaration.

use crate::support::{Fleet, Nodes, Project};
use std::io::{BufRead, BufReader};
use std::process::Stdio;
use std::sync::Arc;
use std::time::Instant;

#[path = "../common/server.rs"]
pub(crate) mod server;
use server::{Reply, Server};

/// Returns incompressible bytes without repetition, to stand in for a driver's installer.
fn large(bytes: usize) -> Vec<u8> {
    let mut state = 88_172_645_463_325_252_u64;
    let mut body = Vec::with_capacity(bytes + 8);
    while body.len() < bytes {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        body.extend_from_slice(&state.to_le_bytes());
    }
    body.truncate(bytes);
    body
}

fn sha256(bytes: &[u8]) -> String {
    use sha2::Digest;
    sha2::Sha256::digest(bytes).iter().map(|byte| format!("{byte:02x}")).collect()
}

fn project(nodes: &Nodes, steps: &str) -> Project {
    let recipe = format!("recipe: big\nsteps:\n{steps}");
    Project::new(nodes).recipe("big", &recipe).inventory("apply:\n  - { recipe: big, on: all }\n")
}

/// Starts a server that the nodes can reach, too: its URLs use the address of the bridge.
fn serve(nodes: &Nodes, answer: impl Fn(&server::Request) -> Reply + Send + Sync + 'static) -> (Server, String) {
    let server = Server::start_on("0.0.0.0:0", Arc::new(|socket| Box::new(socket)), answer);
    let gateway = nodes[0].must("ip route | sed -n 's/^default via \\([0-9.]*\\).*/\\1/p'");
    let base = format!("http://{}:{}", gateway.trim(), server.address.port());
    (server, base)
}

#[test]
fn large_artifact_upload_resumes_after_a_kill() {
    const BYTES: usize = 200_000_000;
    let Some(nodes) = Fleet::take(1) else { return };
    let node = &nodes[0];
    let body = Arc::new(large(BYTES));
    let digest = sha256(&body);
    let own = body.clone();
    let (server, base) = serve(&nodes, move |request| Reply::file(&own, request));
    let step = |path: &str| {
        format!("  - name: driver\n    artifact: {{ path: {path}, url: \"{base}/driver.run\", sha256: {digest} }}\n")
    };
    let project = project(&nodes, &step("/opt/driver.run"));
    project.forge(["fetch", "inventory.yaml"]).must_exit(0);

    let mut child = project.command(["apply", "inventory.yaml", "--yes", "-v"]).stderr(Stdio::piped()).spawn().unwrap();
    let lines = BufReader::new(child.stderr.take().unwrap()).lines();
    let sent = lines.map_while(Result::ok).find(|line| line.contains(" MB sent"));
    child.kill().unwrap();
    child.wait().unwrap();
    let sent = sent.expect("progress of the transfer");
    assert!(!sent.contains("200.0 of"), "it was killed too late: {sent}");
    let part = "set -- /opt/.driver.run.forge-*.part/driver.run; stat -c '%i %s' \"$1\"";
    assert!(!node.exists("/opt/driver.run"));
    let left = node.must(part);
    let (inode, bytes) = left.trim().split_once(' ').unwrap();
    println!("killed after `{sent}`, {bytes} bytes are on the host");
    assert!(bytes.parse::<usize>().unwrap() > 1_000_000);

    let began = Instant::now();
    let out = project.forge(["apply", "inventory.yaml", "--yes"]);
    assert_eq!(out.code, 0, "{out}");
    println!("the rest took {:?}", began.elapsed());
    // The same inode as before: the transfer was resumed.
    assert_eq!(node.must("stat -c '%i %s' /opt/driver.run").trim(), format!("{inode} {BYTES}"));
    assert_eq!(node.must("sha256sum < /opt/driver.run").trim(), format!("{digest}  -"));
    assert!(project.forge(["apply", "inventory.yaml", "--yes"]).stdout.contains("no changes:"));
    assert_eq!(server.asked().len(), 1);

    node.must("rm /opt/driver.run");
    let began = Instant::now();
    let out = project.forge(["apply", "inventory.yaml", "--yes", "--offline"]);
    assert_eq!(out.code, 0, "{out}");
    println!("{BYTES} bytes were sent in {:?}, including plan and verification", began.elapsed());
    assert_eq!(server.asked().len(), 1);
    assert_eq!(node.must("ls -A /opt"), "driver.run");
}

#[test]
fn unavailable_or_mismatched_artifact_changes_nothing() {
    let Some(nodes) = Fleet::take(1) else { return };
    let node = &nodes[0];
    let (server, base) = serve(&nodes, |request| match request.path.as_str() {
        "/gone" => Reply::status(404),
        _ => Reply::file(b"something else", request),
    });
    let before = node.snapshot();
    let declared = sha256(b"what was meant");
    for (path, word) in [("/other", "has the sha256"), ("/gone", "the server answered 404")] {
        let step = format!(
            "  - name: first\n    file: {{ path: /etc/first, content: x }}\n  - name: driver\n    artifact: {{ path: /opt/x, url: \"{base}{path}\", sha256: {declared} }}\n"
        );
        let project = project(&nodes, &step);
        let out = project.forge(["apply", "inventory.yaml", "--yes"]);
        assert_eq!(out.code, 69, "{out}");
        assert!(out.stderr.contains("1 artifact unavailable; nothing was changed"), "{out}");
        assert!(out.stderr.contains(word), "{out}");
        project.forge(["fetch", "inventory.yaml"]).must_exit(69);
        let out = project.forge(["apply", "inventory.yaml", "--yes", "--offline"]);
        assert!(out.code == 69 && out.stderr.contains("and `--offline` is set"), "{out}");
    }
    assert_eq!(node.snapshot(), before);
    assert!(!server.asked().is_empty());
}

#[test]
fn host_fetch_resumes_and_hides_credentials_from_redirects() {
    let Some(nodes) = Fleet::take(1) else { return };
    let node = &nodes[0];
    let body = Arc::new(large(3_000_000));
    let digest = sha256(&body);
    let own = body.clone();
    let (other, away) = serve(&nodes, move |request| Reply::file(&own, request));
    let target = format!("{away}/cdn/x.run");
    let (server, base) = serve(&nodes, move |request| match &request.authorization {
        Some(shown) if shown == "Basic bWU6b3BlbiAic2VzYW1lXA==" => Reply::redirect(&target),
        _ => Reply::status(401),
    });
    let step = |digest: &str| {
        format!(
            "  - name: driver\n    artifact: {{ path: /opt/x.run, url: \"{base}/x.run\", sha256: {digest}, via: host, user: me, password: \"{{{{ params.password }}}}\", mode: \"0755\" }}\n"
        )
    };
    let with = |digest: &str| {
        let recipe = format!("recipe: big\nparams:\n  password: {{ type: secret }}\nsteps:\n{}", step(digest));
        let project = Project::new(&nodes).recipe("big", &recipe).file("secret", "open \"sesame\\\n");
        project.inventory("apply:\n  - { recipe: big, on: all, with: { password: { file: secret } } }\n")
    };
    let wrong = with(&sha256(b"other")).forge(["apply", "inventory.yaml", "--yes"]);
    assert_eq!(wrong.code, 69, "{wrong}");
    assert!(wrong.stdout.contains("the artifact is unavailable or does not match its `sha256`"), "{wrong}");
    assert!(!node.exists("/opt/x.run"));
    let project = with(&digest);
    // The partial file of an earlier attempt is resumed.
    let part = format!("/opt/.x.run.forge-{}.part", &digest[..16]);
    node.must(&format!("mkdir -m 700 {part}"));
    node.write(&format!("{part}/x.run"), &body[..1_000_000]);
    let out = project.forge(["apply", "inventory.yaml", "--yes"]);
    assert_eq!(out.code, 0, "{out}");
    assert_eq!(
        node.must("sha256sum < /opt/x.run; stat -c %a /opt/x.run; ls -A /opt"),
        format!("{digest}  -\n755\nx.run")
    );
    assert!(other.asked().iter().all(|request| request.authorization.is_none()), "{:?}", other.asked());
    assert_eq!(other.asked().last().and_then(|request| request.from), Some(1_000_000));
    assert_eq!(node.sh("grep -r sesame /var/lib/forge /var/log /run/log").stdout, "");
    // With `--offline`, the controller sends it if it is in the cache.
    node.must("rm /opt/x.run");
    let (asked, offline) = (server.asked().len(), ["apply", "inventory.yaml", "--yes", "--offline"]);
    project.forge(offline).must_exit(69);
    project.forge(["fetch", "inventory.yaml"]).must_exit(0);
    let out = project.forge(offline);
    assert_eq!(out.code, 0, "{out}");
    assert_eq!(server.asked().len(), asked + 1);
    assert_eq!(node.must("sha256sum < /opt/x.run"), format!("{digest}  -"));
}

#[test]
fn failed_installer_reports_exit_code_meaning_and_log_tail() {
    let Some(nodes) = Fleet::take(1) else { return };
    let node = &nodes[0];
    node.write("/srv/setup", "#!/bin/sh\nmkdir -p /tmp/setup.$$.logs\necho 'cannot find headers' > /tmp/setup.$$.logs/general.log\nexit 172\n");
    node.must("mkdir /tmp/setup.1.logs; echo 'an older run' > /tmp/setup.1.logs/general.log; sleep 1.1");
    let step = "  - name: setup\n    installer: { path: /srv/setup, version: 1.0, probe: \"cat /opt/version\", log: \"/tmp/setup.*.logs/general.log\", exit_codes: { 172: a prerequisite is missing } }\n";
    let out = project(&nodes, step).forge(["apply", "inventory.yaml", "--yes"]);
    assert_eq!(out.code, 3, "{out}");
    for text in [
        "exit status 172: a prerequisite is missing; afterwards nothing is installed",
        "cannot find headers",
        "forge: /srv/setup ended with 172: a prerequisite is missing",
    ] {
        assert!(out.stdout.contains(text), "{text}: {out}");
    }
    assert!(!out.stdout.contains("an older run"), "{out}");
    // The installer exits 0, but did not install the version.
    node.write("/srv/setup", "#!/bin/sh\necho 0.9 > /opt/version\n");
    let out = project(&nodes, step).forge(["apply", "inventory.yaml", "--yes"]);
    assert_eq!(out.code, 3, "{out}");
    assert!(out.stdout.contains("still differs after the change: version \"0.9\" → \"1.0\""), "{out}");
}
