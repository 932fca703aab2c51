//! The API through the session of a host, where the kubeconfig lies.

use super::support::Cluster;
use crate::support::{Fleet, Node, Nodes, Output, Project};

const PATH: &str = "/etc/kubernetes/admin.conf";

/// A node with the administrator's kubeconfig, as kubeadm leaves it: one context, addresses that are meant there.
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
    assert!(out.stdout.contains("= rights: context `test` may do everything\n"), "{out}");
    // Not root there: sudo reads the file.
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

fn fleet() -> &'static Fleet {
    Fleet::require().expect("nodes come from a fleet")
}

#[test]
fn a_host_that_lets_nothing_through_is_told_with_what_to_do() {
    let Some((api, nodes)) = control_plane() else { return };
    let out = doctor(&project("plain", &nodes));
    let told =
        format!("x kubeconfig: the kubeconfig of `{}` cannot be read: cat: {PATH}: Permission denied\n", nodes[0].name);
    assert!(out.stdout.contains(&told) && out.code == 3, "{out}");

    nodes[0].must("echo 'AllowTcpForwarding no' >/etc/ssh/sshd_config.d/no.conf; systemctl reload ssh");
    let out = doctor(&project("root", &nodes));
    assert!(
        out.stdout.contains(&format!("x api: `https://{} through {}` does not answer: ", api.address, nodes[0].name)),
        "{out}"
    );
    assert!(
        out.stdout
            .contains("hint: check `server` of that context, and that sshd of that host has `AllowTcpForwarding`"),
        "{out}"
    );
    assert_eq!(out.code, 3, "{out}");

    nodes[0].must(&format!("rm {PATH}"));
    let out = doctor(&project("root", &nodes));
    assert!(
        out.stdout.contains("No such file or directory\n      hint: name the right file as `kubernetes.kubeconfig`"),
        "{out}"
    );
}
