//! A real nginx on three hosts, from its package to a repaired configuration. The served pages are checked over HTTP.

use crate::support::{Fleet, Node, Nodes, Output, Project};
use std::io::{Read, Write};
use std::net::TcpStream;
use std::time::{Duration, Instant};

const RECIPE: &str = r#"
recipe: nginx
summary: One site in the place of the default one
steps:
  - name: package
    package: { name: nginx-light }
  - name: default site
    absent: { path: /etc/nginx/sites-enabled/default }
  - name: site
    file:
      path: /etc/nginx/conf.d/site.conf
      content: "server { listen 80; location / { return 200 'one'; } }\n"
      validate: test ! -e /root/refuse
  - name: service
    restart_on: [package, default site, site]
    service: { name: nginx.service, enabled: true, reload: RELOAD }
verify:
  - name: nginx runs
    check: systemctl -q is-active nginx
"#;

const SITE: &str = "/etc/nginx/conf.d/site.conf";

/// Text of the page that the package serves by default.
const WELCOME: &str = "Welcome to nginx";

fn hosts() -> Option<Nodes> {
    let nodes = Fleet::take(3)?;
    for node in nodes.iter() {
        node.write("/etc/apt/sources.list.d/trade.list", "deb [trusted=yes] file:/srv/forge-repo/trade ./\n");
        node.must("apt-get -qq update");
    }
    Some(nodes)
}

/// Returns the page that a host serves.
fn fetch(node: &Node) -> std::io::Result<String> {
    let mut stream = TcpStream::connect((node.address.as_str(), 80))?;
    stream.set_read_timeout(Some(Duration::from_secs(5)))?;
    // Without a host in the request, nginx would choose a site without a name first.
    stream.write_all(b"GET / HTTP/1.0\r\nHost: site\r\n\r\n")?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer)?;
    Ok(answer.split_once("\r\n\r\n").map(|(_, body)| body.to_owned()).unwrap_or_default())
}

/// Waits until a host serves a page with `text`: after a reload, nginx replaces its workers with some delay.
#[track_caller]
fn expect_page(node: &Node, text: &str) {
    let end = Instant::now() + Duration::from_secs(10);
    loop {
        let page = fetch(node);
        match &page {
            Ok(page) if page.contains(text) => return,
            _ => assert!(Instant::now() < end, "{} serves {page:?}, not {text}", node.name),
        }
        std::thread::sleep(Duration::from_millis(50));
    }
}

fn forge(project: &Project, verb: &str) -> Output {
    match verb {
        "apply" => project.forge(["apply", "inventory.yaml", "--yes"]),
        "plan" => project.forge(["plan", "inventory.yaml", "--detailed-exitcode"]),
        verb => project.forge([verb, "inventory.yaml"]),
    }
}

#[track_caller]
fn expect(project: &Project, verb: &str, code: i32) -> Output {
    let out = forge(project, verb);
    assert_eq!(out.code, code, "{verb}: {out}");
    out
}

fn start(node: &Node) -> String {
    node.must("systemctl show -P InvocationID nginx")
}

/// Changes made without forge; after each, nginx serves another page.
const TAMPERS: &[(&str, &str)] = &[
    ("sed -i s/one/tampered/ SITE; systemctl reload nginx", "tampered"),
    ("sed -i s/one/tampered/ SITE; nginx -s reload", "tampered"),
    // Restored at once: the file matches, and so does its mtime.
    (
        "cp -p SITE /root/good; sed -i s/one/tampered/ SITE; systemctl reload nginx; sleep 1; cp -p /root/good SITE",
        "tampered",
    ),
    (
        "mv SITE /root/; echo \"server { listen 80; return 200 'tampered'; }\" > SITE; nginx -s reload; sleep 1; mv /root/site.conf SITE",
        "tampered",
    ),
    ("ln -s ../sites-available/default /etc/nginx/sites-enabled/default; systemctl reload nginx", WELCOME),
];

#[test]
fn declared_nginx_site_is_served_and_repaired() {
    let Some(nodes) = hosts() else { return };
    let recipe = |reload: &str| RECIPE.replace("RELOAD", reload);
    let mut project =
        Project::new(&nodes).recipe("nginx", &recipe("false")).inventory("apply:\n  - { recipe: nginx, on: all }\n");
    // The package installs a default site, which does not exist yet: the plan says that the step is evaluated again.
    let plan = expect(&project, "plan", 2);
    assert!(plan.stdout.contains("`nginx/package` may change that"), "{plan}");
    nodes[0].must("touch /root/refuse");
    let first = forge(&project, "apply");
    assert!(first.code != 0 && !first.stdout.contains("stale"), "{first}");
    expect_page(&nodes[0], WELCOME);
    nodes[1..].iter().for_each(|node| expect_page(node, "one"));
    nodes.iter().for_each(|node| assert!(!node.exists("/etc/nginx/sites-enabled/default")));

    // The first apply failed, and the package started nginx.
    nodes[0].must("rm /root/refuse");
    expect(&project, "apply", 0);
    nodes.iter().for_each(|node| expect_page(node, "one"));
    let started: Vec<String> = nodes.iter().map(start).collect();
    let again = expect(&project, "apply", 0);
    assert!(again.stdout.contains("no changes:"), "{again}");
    assert_eq!(nodes.iter().map(start).collect::<Vec<_>>(), started);

    for reload in ["false", "true"] {
        project = project.recipe("nginx", &recipe(reload));
        expect(&project, "apply", 0);
        for (how, page) in TAMPERS {
            nodes[1].must(&how.replace("SITE", SITE));
            expect_page(&nodes[1], page);
            let found = expect(&project, "plan", 2);
            assert!(found.stdout.contains("nginx/service") && !found.stdout.contains(&nodes[0].name), "{how}: {found}");
            let before = start(&nodes[1]);
            expect(&project, "apply", 0);
            expect_page(&nodes[1], "one");
            assert_eq!(start(&nodes[1]) == before, reload == "true", "{how}: a reload must not restart nginx");
            expect(&project, "plan", 0);
            expect(&project, "verify", 0);
        }
    }
    nodes.iter().for_each(|node| expect_page(node, "one"));
}
