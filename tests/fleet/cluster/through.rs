//! The API through the session of the host that has the kubeconfig.

use super::helm::{CHART, copy};
use super::support::{Cluster, Helm, kubectl};
use crate::support::{Fleet, Node, Nodes, Output, Project};

const PATH: &str = "/etc/kubernetes/admin.conf";

/// Takes a node with the administrator's kubeconfig, as kubeadm writes it: the addresses are valid on that node.
fn control_plane() -> Option<(&'static Cluster, Nodes)> {
    let nodes = Fleet::take(1)?;
    let api = Cluster::require()?;
    let text = std::fs::read_to_string(&api.kubeconfig).expect("a kubeconfig");
    let there = text.replace(&api.server, &format!("https://{}", api.address));
    assert_ne!(text, there);
    nodes[0].must("mkdir /etc/kubernetes");
    nodes[0].write(PATH, there);
    nodes[0].must(&format!("chmod 600 {PATH}"));
    Some((api, nodes))
}

fn project(user: &str, nodes: &[Node]) -> Project {
    let via = &nodes[0].name;
    let rest = format!("kubernetes: {{ kubeconfig: {PATH}, context: test, via: {via} }}\n");
    Project::connecting_as(user, nodes).inventory(&rest)
}

fn doctor(project: &Project) -> Output {
    project.forge(["doctor", "inventory.yaml", "-v"])
}

#[test]
fn the_api_is_reached_through_a_host() {
    let Some((api, nodes)) = control_plane() else { return };
    let out = doctor(&project("root", &nodes));
    let told = format!("= api: `https://{} through {}` is v1.20.2\n", api.address, nodes[0].name);
    assert!(out.stdout.contains(&told), "{out}");
    assert!(out.stdout.contains("= rights: context `test` has full permissions\n"), "{out}");
    // The login is not root: sudo reads the file.
    let project = Project::connecting_as("deploy", &nodes);
    let connect = format!(
        "{{ user: deploy, sudo: true, identity: {}, known_hosts: {} }}",
        fleet().key.display(),
        fleet().known_hosts.display()
    );
    let inventory = format!(
        "cluster: fleet\nconnect: {connect}\nhosts: {{ {}: {{ address: {} }} }}\nkubernetes: {{ kubeconfig: {PATH}, context: test, via: {} }}\n",
        nodes[0].name, nodes[0].address, nodes[0].name
    );
    let out = doctor(&project.file("inventory.yaml", &inventory));
    assert!(out.stdout.contains(&told), "{out}");
}

/// Helm runs on this machine, with its own kubeconfig for the connection through the host.
#[test]
fn helm_connects_through_a_host() {
    let Some((api, nodes)) = control_plane() else { return };
    for (helm, name) in [(Helm::Three, "through3"), (Helm::Four, "through4")] {
        let rest = format!(
            "kubernetes: {{ kubeconfig: {PATH}, context: test, via: {} }}\napply: [{{ recipe: app, on: all }}]\n",
            nodes[0].name
        );
        let release =
            format!("name: r, namespace: {name}, path: charts/tiny, version: 0.1.0, wait: false, hooks: false");
        let recipe = format!(
            "recipe: app\nsummary: A chart\nsteps:\n  - name: place\n    namespace: {{ name: {name} }}\n  \
             - name: chart\n    helm_release: {{ {release} }}\n"
        );
        let project = Project::connecting_as("root", &nodes).called(name).inventory(&rest).recipe("app", &recipe);
        copy(CHART.as_ref(), &project.path("recipes/charts/tiny"), name);
        std::fs::create_dir(project.path("bin")).expect("a folder");
        let program = api.helm(helm).expect("a helm");
        std::os::unix::fs::symlink(program, project.path("bin/helm")).expect("a link");
        std::fs::create_dir(project.path("tmp")).expect("a folder");
        let forge = |args: &[&str]| {
            let path = format!("{}:{}", project.path("bin").display(), std::env::var("PATH").expect("a path"));
            let mut command = project.command(args.iter().chain(&["inventory.yaml"]));
            Output::of(command.env("PATH", path).env("TMPDIR", project.path("tmp")), b"")
        };
        let out = forge(&["apply", "--yes"]);
        assert_eq!(out.code, 0, "{out}");
        let out = forge(&["apply", "--yes"]);
        assert_eq!(out.code, 0, "{out}");
        let revisions = kubectl(&["-n", name, "get", "secret", "-l", "owner=helm", "-o", "name"]);
        assert_eq!(revisions, "secret/sh.helm.release.v1.r.v1\n");
        let left: Vec<_> = std::fs::read_dir(project.path("tmp")).expect("a folder").collect();
        assert!(left.is_empty(), "{left:?}");
    }
}

fn fleet() -> &'static Fleet {
    Fleet::require().expect("nodes come from a fleet")
}

#[test]
fn host_that_cannot_forward_the_api_is_reported_with_a_hint() {
    let Some((api, nodes)) = control_plane() else { return };
    let out = doctor(&project("plain", &nodes));
    let told =
        format!("x kubeconfig: kubeconfig of `{}` cannot be read: cat: {PATH}: Permission denied\n", nodes[0].name);
    assert!(out.stdout.contains(&told) && out.code == 3, "{out}");

    nodes[0].must("echo 'AllowTcpForwarding no' >/etc/ssh/sshd_config.d/no.conf; systemctl reload ssh");
    let out = doctor(&project("root", &nodes));
    assert!(
        out.stdout.contains(&format!("x api: request to `https://{} through {}` failed: ", api.address, nodes[0].name)),
        "{out}"
    );
    assert!(
        out.stdout
            .contains("hint: check `server` of this context, and that sshd on that host has `AllowTcpForwarding`"),
        "{out}"
    );
    assert_eq!(out.code, 3, "{out}");

    nodes[0].must(&format!("rm {PATH}"));
    let out = doctor(&project("root", &nodes));
    assert!(
        out.stdout.contains(&format!(
            "x kubeconfig: kubeconfig `{PATH}` not found on `{}`\n      hint: set `kubernetes.kubeconfig` to the right file",
            nodes[0].name
        )),
        "{out}"
    );
}
