//! `forge fetch`: the cache, the lock file, and `--offline`. No host is contacted.

use super::server::{Reply, Server};
use super::support::Place;

const BODY: &[u8] = b"a driver";
/// SHA-256 of [`BODY`].
const DIGEST: &str = "90383ae1a1af0952d39bcf452e62c7d6de4381a03bdd30bf5ead80c3b9bf4b99";

fn serve() -> Server {
    Server::start(|request| match request.path.as_str() {
        "/driver.run" => Reply::file(BODY, request),
        _ => Reply::status(404),
    })
}

fn place(artifact: &str) -> Place {
    let recipe = format!("recipe: driver\nsteps:\n  - name: file\n    artifact: {artifact}\n");
    Place::new()
        .file("inventory.yaml", "cluster: lab\nhosts: [node-1, node-2]\napply: [{ recipe: driver, on: all }]\n")
        .file("recipes/driver.yaml", &recipe)
}

#[test]
fn fetch_fills_the_cache_and_offline_reads_it() {
    let server = serve();
    let url = server.url("/driver.run");
    let place = place(&format!("{{ path: /opt/driver.run, url: \"{url}\", sha256: {DIGEST} }}"));
    let cache = "1 artifact available; cache: `.forge/lab/artifacts`\n";
    let first = place.forge(&["fetch", "-q"]);
    assert_eq!(first, format!("exit 0\n--- stdout\nfetched {url} (8 bytes, sha256 {DIGEST})\n{cache}--- stderr\n"));
    let again = place.forge(&["fetch", "--offline", "-v"]);
    assert_eq!(
        again,
        format!(
            "exit 0\n--- stdout\ncached {url} (8 bytes, sha256 {DIGEST})\n  for driver/file on 2 hosts\n{cache}--- stderr\n"
        )
    );
    assert_eq!(server.asked().len(), 1);
}

#[test]
fn proxies_of_the_environment_are_used() {
    let proxy = Server::start(|request| match request.path.as_str() {
        "http://mirror.invalid/driver.run" => Reply::file(BODY, request),
        _ => Reply::status(407),
    });
    let artifact = |url: &str| place(&format!("{{ path: /opt/driver.run, url: \"{url}\", sha256: {DIGEST} }}"));
    let address = proxy.url("");
    let told = artifact("http://mirror.invalid/driver.run").env("HTTP_PROXY", &address).forge(&["fetch"]);
    assert!(told.starts_with("exit 0\n"), "{told}");
    let told = artifact("https://mirror.invalid/driver.run").env("HTTPS_PROXY", &address).forge(&["fetch"]);
    assert!(told.starts_with("exit 69\n") && told.contains("could not connect to the server: "), "{told}");
    let asked: Vec<String> = proxy.asked().into_iter().map(|request| request.path).collect();
    assert_eq!(asked.first().map(String::as_str), Some("http://mirror.invalid/driver.run"));
    assert!(asked[1..].iter().all(|path| path == "mirror.invalid:443"), "{asked:?}");
    let server = serve();
    let direct = artifact(&server.url("/driver.run")).env("HTTP_PROXY", &address).env("NO_PROXY", "127.0.0.1");
    assert!(direct.forge(&["fetch"]).starts_with("exit 0\n"));
}

#[test]
fn failed_fetch_exits_69() {
    let server = serve();
    let url = server.url("/gone.run");
    let place = place(&format!("{{ path: /opt/driver.run, url: \"{url}\", sha256: {DIGEST} }}"));
    let told = place.forge(&["fetch"]);
    assert!(told.starts_with("exit 69\n"), "{told}");
    assert!(
        told.contains(&format!("failed `{url}` cannot be fetched: the server answered 404 (not found)\n  hint: check"))
    );
    assert!(told.contains("  for driver/file on 2 hosts\n0 artifacts available, 1 failed;"), "{told}");
    let offline = place.forge(&["fetch", "--offline", "--format", "json"]);
    assert!(
        offline.starts_with("exit 69\n") && offline.contains("is not in the cache, and `--offline` is set"),
        "{offline}"
    );
    assert_eq!(server.asked().len(), 1);
}

#[test]
fn fetch_lock_writes_missing_digests_to_the_lock_file() {
    let server = serve();
    let url = server.url("/driver.run");
    let place = place(&format!("{{ path: /opt/driver.run, url: \"{url}\" }}"));
    let without = place.forge(&["validate"]);
    assert!(without.starts_with("exit 65\n") && without.contains("an artifact needs its `sha256`"), "{without}");
    assert!(
        without.contains(
            "run `forge fetch` to compute and print it, or run `forge fetch --lock` to write it to the inventory's lock file"
        ),
        "{without}"
    );
    let locked = place.forge(&["fetch", "--lock", "-q"]);
    assert!(locked.starts_with("exit 0\n") && locked.contains("written: inventory.yaml.lock\n"), "{locked}");
    let noted = format!("{{\n  \"version\": 1,\n  \"artifacts\": {{\n    \"{url}\": \"{DIGEST}\"\n  }}\n}}\n");
    assert_eq!(place.read("inventory.yaml.lock"), noted);
    assert!(place.forge(&["validate"]).starts_with("exit 0\n"));
    // A digest in the lock file is kept: it is not computed again.
    let again = place.forge(&["fetch", "--lock", "--offline", "-q"]);
    assert!(again.starts_with("exit 0\n") && !again.contains("written"), "{again}");
    let place = place.file("inventory.yaml.lock", &noted.replace(DIGEST, &"1".repeat(64)));
    assert!(place.forge(&["fetch"]).starts_with("exit 69\n"));
    let place = place.file("inventory.yaml.lock", "{");
    let broken = place.forge(&["validate"]);
    assert!(broken.contains("the lock file `inventory.yaml.lock` cannot be read: "), "{broken}");
}

#[test]
fn artifacts_that_depend_on_facts_are_reported_unresolved() {
    let place = place("{ path: /opt/x, url: \"http://127.0.0.1:9/{{ facts.os.id }}\", sha256: \"{{ facts.os.id }}\" }");
    let told = place.forge(&["fetch"]);
    let open = "not resolved: `driver/file` depends on facts of the hosts; `forge apply` fetches the artifacts\n";
    assert!(told.starts_with("exit 0\n") && told.contains(open), "{told}");
}

#[test]
fn local_artifact_file_is_verified_by_digest() {
    let place = place(&format!("{{ path: /opt/x, file: files/driver, sha256: {DIGEST} }}"));
    let place = place.file("recipes/files/driver", "a driver");
    let told = place.forge(&["fetch"]);
    assert!(
        told.starts_with("exit 0\n--- stdout\ncached ") && told.contains("recipes/files/driver (8 bytes"),
        "{told}"
    );
    let place = place.file("recipes/files/driver", "another driver");
    assert!(place.forge(&["fetch"]).starts_with("exit 69\n"));
    let outside = self::place(&format!("{{ path: /opt/x, file: ../../etc/hostname, sha256: {DIGEST} }}"));
    assert!(outside.forge(&["fetch"]).contains("leaves the inventory's tree"));
}

/// Returns an inventory that passes an installer to a built-in recipe.
fn driver(runfile: &str) -> String {
    format!(
        "cluster: lab\nhosts: [node-1, node-2]\napply:\n  - recipe: nvidia-driver\n    on: all\n    with:\n      method: runfile\n      \
         flavor: open\n      version: \"580.65.06\"\n      runfile:\n{runfile}"
    )
}

#[test]
fn missing_builtin_recipe_digest_is_computed_and_printed() {
    let server = Server::start(|request| match request.path.as_str() {
        "/driver.run" => Reply::redirect("/mirror/driver.run"),
        _ => Reply::file(BODY, request),
    });
    let url = server.url("/driver.run");
    let source = format!("        url: \"{url}\"\n");
    let place = Place::new().file("inventory.yaml", &driver(&source));
    let told = place.forge(&["fetch", "-q"]);
    let expected = format!(
        "exit 65\n--- stdout\nfetched {url} (8 bytes, sha256 {DIGEST})\n  computed from the download from {}; compare it with \
         the publisher's digest, then paste:\n    sha256: \"{DIGEST}\"\n  next to inventory.yaml:11:14\nmissing: 1 artifact without a \
         declared sha256; apply fails until it is declared\n1 artifact available; cache: `.forge/lab/artifacts`\n--- stderr\n",
        server.url("/mirror/driver.run")
    );
    assert_eq!(told, expected);
    // The computed digest is not trusted automatically.
    let still = place.forge(&["validate"]);
    assert!(still.starts_with("exit 65\n") && still.contains("--> inventory.yaml:11:14"), "{still}");
    let pasted = format!("{source}        sha256: \"{DIGEST}\"\n");
    let place = place.file("inventory.yaml", &driver(&pasted));
    assert!(place.forge(&["validate"]).starts_with("exit 0\n"));
    let here = place.forge(&["fetch", "--offline", "-q"]);
    assert!(here.starts_with("exit 0\n--- stdout\ncached "), "{here}");
    let place = place.file("inventory.yaml", &driver(&source));
    let locked = place.forge(&["fetch", "--lock", "-q"]);
    assert!(locked.starts_with("exit 0\n") && locked.contains("written: inventory.yaml.lock\n"), "{locked}");
    assert!(locked.contains("compare it with the publisher's digest\n") && !locked.contains("paste"), "{locked}");
    assert!(place.forge(&["validate"]).starts_with("exit 0\n"));
}

#[test]
fn redirect_signatures_are_never_printed() {
    let storage = Server::start(|request| match request.path.as_str() {
        "/bucket/driver.run?X-Amz-Signature=hunter2" => Reply::file(BODY, request),
        _ => Reply::status(403),
    });
    let away = storage.url("/bucket/driver.run?X-Amz-Signature=hunter2");
    let server = Server::start(move |request| match request.path.as_str() {
        "/driver.run" => Reply::redirect(&away),
        // Credentials in a redirect are refused, and not printed.
        _ => Reply::redirect("http://me:hunter2@storage.example/driver.run?sig=hunter2"),
    });
    let place = place(&format!("{{ path: /opt/driver.run, url: \"{}\" }}", server.url("/driver.run")));
    let shown = storage.url("/bucket/driver.run");
    let text = place.forge(&["fetch", "-vv"]);
    assert!(text.contains(&format!("computed from the download from {shown}; compare it")), "{text}");
    let json = place.forge(&["fetch", "--format", "json"]);
    assert!(
        json.starts_with("exit 65\n") && json.contains("\"over\":") && json.contains(&format!("\"{shown}\"")),
        "{json}"
    );
    let refused = self::place(&format!("{{ path: /opt/driver.run, url: \"{}\" }}", server.url("/refused.run")));
    let refused = refused.forge(&["fetch"]);
    let why = "redirect to `http://storage.example/driver.run`, which holds credentials, which would be shown";
    assert!(refused.starts_with("exit 69\n") && refused.contains(why), "{refused}");
    for printed in [text, json, refused] {
        assert!(!printed.contains("hunter2"), "{printed}");
    }
}

#[test]
fn artifact_errors_point_at_the_users_parameter() {
    let place = Place::new().file("inventory.yaml", &driver("        url: ftp://h/x\n        sha256: abc\n"));
    let told = place.forge(&["validate"]);
    assert!(told.contains("`url` is neither http nor https\n   --> inventory.yaml:11:14"), "{told}");
    assert!(told.contains("::: <built in>/nvidia-driver.yaml:"), "{told}");
    let place = place.file("inventory.yaml", &driver("        url: https://h/x\n        sha256: abc\n"));
    let told = place.forge(&["validate"]);
    assert!(told.contains("`sha256` is not 64 hexadecimal digits\n   --> inventory.yaml:12:17"), "{told}");
    // The installer reads the same value, but the mistake is reported once.
    assert_eq!(told.matches("error[").count(), 1, "{told}");
    // Through a stack that passes its own parameter on, and from a variable of a group.
    let stack = "recipe: node\nparams: { installer: { type: map } }\nuses:\n  - recipe: nvidia-driver\n    \
                 with: { method: runfile, flavor: open, version: \"580.65.06\", runfile: \"{{ params.installer }}\" }\n";
    let inventory = "cluster: lab\nhosts: [node-1]\ngroups:\n  all:\n    vars:\n      installer:\n        url: https://h/x\n        sha256: abc\napply: [{ recipe: node, on: all }]\n";
    let place = Place::new().file("recipes/node.yaml", stack).file("inventory.yaml", inventory);
    let told = place.forge(&["validate"]);
    assert!(told.contains("`sha256` is not 64 hexadecimal digits\n   --> inventory.yaml:8:17"), "{told}");
}
