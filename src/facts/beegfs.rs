//! `beegfs`: the connections of BeeGFS clients to their servers.

use super::fact::{Fact, FactShape};
use super::snippet_output::{OutputSection, require_success, split_sections};
use crate::model::Value;
use crate::probe::{FactSnippet, ProbeOutput, UnansweredReason};
use serde_json::json;

pub(super) const FACT: Fact = Fact {
    name: "beegfs",
    doc: "The connections of mounted BeeGFS file systems to metadata and storage servers, a list by server, from `/proc/fs/beegfs`. \
          Empty if none is mounted. A server without traffic has no connection yet.",
    shape: FactShape::List,
    fields: &[
        ("client", "the client's identifier, one for each mount: `c22801-6A1925D1-node01`"),
        ("role", "`meta` or `storage`"),
        ("server", "the server, as it names itself"),
        ("rdma", "number of connections over RDMA"),
        ("tcp", "number of connections over TCP"),
        ("fallback", "whether a connection uses an address that is not the server's preferred one"),
    ],
    reads: &["/proc/fs/beegfs/*/{meta_nodes,storage_nodes}"],
    alike: &[],
    snippet: FactSnippet {
        name: "beegfs",
        snippet: "for f in /proc/fs/beegfs/*/meta_nodes /proc/fs/beegfs/*/storage_nodes; do\n\
                  [ -e \"$f\" ] || continue\n\
                  printf '\\036nodes\\t%s\\n' \"${f#/proc/fs/beegfs/}\"; cat \"$f\" || exit\n\
                  done\n:",
        timeout_s: 10,
        device: false,
        quick: false,
        builtin: false,
    },
    parse,
};

fn parse(output: &ProbeOutput) -> Result<Value, UnansweredReason> {
    let parts = split_sections(require_success(output)?);
    Ok(parts.iter().filter(|part| part.name() == "nodes").flat_map(parse_servers).collect())
}

/// Parses the servers of one file. The name of a server begins its line, and the lines about it are indented.
fn parse_servers(part: &OutputSection<'_>) -> Vec<Value> {
    let (client, file) = part.field_at(1).split_once('/').unwrap_or_default();
    let role = file.strip_suffix("_nodes").unwrap_or(file);
    let mut server = "";
    let mut servers = Vec::new();
    for line in part.body.lines() {
        if let Some((name, _)) = line.split_once(" [ID: ").filter(|_| !line.starts_with(' ')) {
            server = name;
        } else if let Some(connections) = line.trim().strip_prefix("Connections: ") {
            let count = |kind: &str| count_connections(connections, kind);
            servers.push(json!({
                "client": client,
                "role": role,
                "server": server,
                "rdma": count("RDMA"),
                "tcp": count("TCP"),
                "fallback": connections.contains("[fallback route]"),
            }));
        }
    }
    servers
}

/// Returns the number in `RDMA: 4 (10.0.0.5:8003);`, and 0 if no connection has that kind.
fn count_connections(connections: &str, kind: &str) -> u64 {
    let of_kind = |part: &str| part.trim().strip_prefix(kind)?.strip_prefix(": ")?.split(' ').next()?.parse().ok();
    connections.split(';').find_map(of_kind).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::facts::snippet_output::testing::{expand_separators, parse_stdout};

    /// origin: source, ThinkParQ/beegfs, client_module/source/filesystem/ProcFsHelper.c; the line over TCP is field, from
    /// the tests of NetApp/beegfs-csi-driver, the one over RDMA field, from njutli/beegfs-production.
    const NODES: &str = "@@nodes\tc1-6A19-node01/meta_nodes\nmeta01 [ID: 1]\n   Root: <yes>\n   Connections: RDMA: 2 (192.168.44.20:8005); \n\
        @@nodes\tc1-6A19-node01/storage_nodes\nlocalhost [ID: 1]\n   Connections: TCP: 4 (10.193.113.4:8003 [fallback route]); \n\
        oss2 [ID: 2]\n   Connections: <none>\noss3 [ID: 3]\n   Connections: TCP: 1 (10.3.2.7:8003); RDMA: 12 (10.3.2.6:8003); \n";

    #[test]
    fn connections_are_counted_by_kind() {
        let parsed = parse_stdout(&FACT, &expand_separators(NODES)).unwrap();
        let row = |role: &str, server: &str, rdma: u64, tcp: u64, fallback: bool| json!({"client": "c1-6A19-node01", "role": role, "server": server, "rdma": rdma, "tcp": tcp, "fallback": fallback});
        let expected = json!([
            row("meta", "meta01", 2, 0, false),
            row("storage", "localhost", 0, 4, true),
            row("storage", "oss2", 0, 0, false),
            row("storage", "oss3", 12, 1, false),
        ]);
        assert_eq!(parsed, expected);
        assert_eq!(parse_stdout(&FACT, ""), Ok(json!([])), "no file system is mounted");
    }
}
