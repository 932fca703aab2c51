//! `forge test` without hosts: the plan of a run, and mistakes in `tests:`.

use super::support::Place;

const INVENTORY: &str = "cluster: c
hosts:
  node-[1:4]: {}
tests:
  nightly:
    - test: ucx-bandwidth
      on: node-[1:3]
      with: { transport: tcp }
      share: 0.85
      of: 400
    - { test: disk, on: all, least: 2, schedule: all }
";

const DISK: &str = "test: disk
about: Speed of the disk
scope: host
output: number
limit: 20s
command: [sh, /opt/disk.sh, '{size}']
parameters: { size: 1G }
";

fn place() -> Place {
    Place::new().file("inventory.yaml", INVENTORY).file("tests/disk.yaml", DISK)
}

#[test]
fn dry_run_shows_hosts_pairs_and_programs() {
    insta::assert_snapshot!(place().forge(&["test", "--set", "nightly", "--dry-run"]));
}

#[test]
fn builtin_sets_need_no_section() {
    let place = Place::new().file("inventory.yaml", "cluster: c\nhosts:\n  node-[1:4]: {}\n");
    for (set, test) in [
        ("quick", "ib-write-bw"),
        ("burn-in", "ib-write-bw"),
        ("full", "ib-write-bw"),
        ("collectives", "nccl-alltoall-hosts"),
        ("connectivity", "rping"),
    ] {
        let told = place.forge(&["test", "--set", set, "--dry-run"]);
        assert!(told.starts_with("exit 0") && told.contains(test), "{told}");
    }
    let unknown = place.forge(&["test", "--set", "slow", "--dry-run"]);
    let message =
        "error: set `slow` not found\n  hint: the sets are `quick`, `burn-in`, `full`, `collectives`, `connectivity`\n";
    assert!(unknown.starts_with("exit 64") && unknown.ends_with(message), "{unknown}");
}

#[test]
fn tests_need_a_confirmation() {
    let told = place().forge(&["test", "--set", "nightly"]);
    assert!(told.starts_with("exit 64"), "{told}");
    assert!(
        told.contains("hint: pass `--yes` to skip the confirmation, or `--dry-run` to see what would run"),
        "{told}"
    );
}

#[test]
fn mistakes_in_tests_are_shown_in_place() {
    let bad = "cluster: c
hosts:
  node-[1:4]: {}
tests:
  quick:
    - { test: ib-wirte-bw, on: all, share: 0.9 }
    - { test: ib-write-bw, on: all }
    - { test: ib-write-bw, on: all, share: 90 }
    - { test: ib-write-bw, on: all, least: 500, of: 400 }
    - { test: ib-write-bw, on: all, floor: ndr-h100/port/ib_write_bw }
    - { test: ib-write-lat, on: all, floor: ndr-h100/port/ib_write_bw-gdr }
    - { test: ib-write-bw, on: gpu, peers: 0.05 }
    - { test: ib-write-bw, on: all, share: 0.9, with: { sizes: 8 }, schedule: pairs }
";
    insta::assert_snapshot!(Place::new().file("inventory.yaml", bad).forge(&["validate"]));
}

/// Each would measure nothing, or accept bad values.
#[test]
fn limits_and_hosts_that_prove_nothing_are_mistakes() {
    let bad = "cluster: c
hosts:
  node-[1:4]: {}
tests:
  quick:
    - { test: ib-write-lat, on: all, least: 5 }
    - { test: ib-write-bw, on: all, most: 400 }
    - { test: ib-write-bw, on: all, share: 0.9, at_once: 0 }
    - { test: nccl-all-reduce-hosts, on: all, least: 300, group_size: 9 }
    - { test: disk, on: 'node-[1:2]', peers: 0.05 }
    - { test: site-pair, on: all, least: 1 }
    - { test: ucx-bandwidth, on: 'node-[1:2]', peers: 0.05 }
    - { test: ucx-bandwidth, on: all, peers: 1 }
";
    let disk = DISK.replace("'{size}'", "'{sizee}', '{print}', '${sizes}'");
    let pair = "test: site-pair\nscope: pair\noutput: number\nserver: [serve]\nclient: [ask, '{address}']\n";
    let place = Place::new().file("inventory.yaml", bad).file("tests/disk.yaml", &disk);
    insta::assert_snapshot!(place.file("tests/site-pair.yaml", pair).forge(&["validate"]));
}

/// A launcher of the site's own.
const GROUP: &str = "test: site-reduce
scope: group
output: nccl
command: [mpirun, --host, '{hosts}', -np, '{ranks}', --mca, orte_launch_agent, 'env {mark} orted', all_reduce_perf]
parameters: { user: train, slots: 8 }
";

#[test]
fn dry_run_shows_groups_and_their_launcher() {
    let inventory = "cluster: c
hosts:
  node-[1:7]: {}
tests:
  groups:
    - { test: nccl-all-reduce-hosts, on: all, floor: h100-sxm/two-hosts/all_reduce-average, with: { begin: 1G }, group_size: 2, gpudirect: true }
    - { test: nccl-sendrecv-hosts, on: all, least: 40 }
    - { test: site-reduce, on: all, least: 300, network: any, group_size: 3, at_once: 2 }
    - { test: site-reduce, on: all, peers: 0.05, group_size: 2, schedule: all }
";
    let place = Place::new().file("inventory.yaml", inventory).file("tests/site-reduce.yaml", GROUP);
    insta::assert_snapshot!(place.forge(&["test", "--set", "groups", "--dry-run"]));
}

#[test]
fn mistakes_in_groups_are_shown_in_place() {
    let inventory = "cluster: c
hosts:
  node-[1:4]: {}
tests:
  groups:
    - { test: ib-write-bw, on: all, share: 0.9, group_size: 2 }
    - { test: nccl-all-reduce, on: all, least: 300, network: any }
    - { test: nccl-all-reduce-hosts, on: all, least: 300, network: tcp }
    - { test: nccl-all-reduce-hosts, on: all, least: 300, network: any, gpudirect: true }
    - { test: nccl-all-reduce-hosts, on: all, least: 300, group_size: 1 }
    - { test: bare, on: all, least: 300 }
    - { test: nccl-all-reduce-hosts, on: all, floor: h100-sxm/host/all_reduce }
    - { test: nccl-all-reduce-hosts, on: all, floor: h100-sxm/two-hosts/all_reduce-average }
    - { test: nccl-all-reduce, on: all, floor: h100-sxm/two-hosts/all_reduce-average }
    - { test: dcgm-diag, on: all, least: 5 }
";
    let bare = "test: bare
scope: group
output: nccl
command: [mpirun, all_reduce_perf]
";
    let place = Place::new().file("inventory.yaml", inventory).file("tests/bare.yaml", bare);
    insta::assert_snapshot!(place.forge(&["validate"]));
}

#[test]
fn report_formats_are_checked_before_anything_runs() {
    let wrong = place().forge(&["test", "--set", "nightly", "--yes", "--report", "sarif=x"]);
    let message = "error: `--report sarif=…` is not supported by this verb
  hint: the formats of `forge test` are text, json, markdown, junit and html
";
    assert!(wrong.starts_with("exit 64") && wrong.ends_with(message), "{wrong}");
    let twice = place().forge(&["test", "--yes", "--report", "junit=x", "--report", "html=x"]);
    assert!(twice.starts_with("exit 64") && twice.contains("two reports have the same file `x`"), "{twice}");
}

/// Tests of an adapter alone and of a connection declare no limit, or that of a port.
#[test]
fn dry_run_shows_adapters_alone_and_connections() {
    let inventory = "cluster: c\nhosts:\n  node-[1:4]: {}\n";
    let place = Place::new().file("inventory.yaml", inventory);
    insta::assert_snapshot!(place.forge(&["test", "--set", "connectivity", "--dry-run"]));
}

#[test]
fn mistakes_in_connections_are_shown_in_place() {
    let inventory = "cluster: c
hosts:
  node-[1:4]: {}
tests:
  quick:
    - { test: rping, on: all, least: 10 }
    - { test: gpu-clocks, on: all, peers: 0.1 }
    - { test: ib-write-bw-loopback, on: all, floor: h100-sxm/host/all_reduce }
    - { test: ib-write-bw-loopback, on: all, floor: ndr-h100/port/ib_write_bw-gdr }
    - { test: own, on: all, least: 1 }
    - { test: alone, on: all, least: 1 }
";
    let own = "test: own\nscope: loopback\noutput: number\nlistens: udp\nserver: [serve]\nclient: [ask]\n";
    let alone = "test: alone\nscope: host\noutput: number\nlistens: rdma\ncommand: [ask, '{own_adress}']\n";
    let place = Place::new().file("inventory.yaml", inventory).file("tests/own.yaml", own);
    insta::assert_snapshot!(place.file("tests/alone.yaml", alone).forge(&["validate"]));
}

#[test]
fn parameter_without_a_default_must_be_set() {
    let inventory = "cluster: c
hosts:
  node-[1:4]: {}
tests:
  disks:
    - { test: fio-read, on: all, least: 3 }
    - { test: fio-read, on: all, least: 3, with: { flie: /dev/nvme1n1 } }
    - { test: nvbandwidth, on: all, floor: h100-sxm/gpu/host-device }
    - { test: ib-atomic-bw, on: all, peers: 0.05 }
";
    let place = Place::new().file("inventory.yaml", inventory);
    insta::assert_snapshot!(place.forge(&["validate"]));
    let right =
        inventory.replace("fio-read, on: all, least: 3 }", "fio-read, on: all, least: 3, with: { file: /dev/sdb } }");
    let right = right.replace("flie", "file");
    let place = Place::new().file("inventory.yaml", &right);
    insta::assert_snapshot!(place.forge(&["test", "--set", "disks", "--dry-run"]));
}

#[test]
fn mistakes_in_what_a_test_rests_on_are_shown_in_place() {
    let odd = DISK.to_owned() + "rests_on: [kernel, drivers, 'package:', 'package:fio']\n";
    let inventory = INVENTORY.replace("schedule: all", "required: maybe");
    let place = Place::new().file("inventory.yaml", inventory.as_str()).file("tests/disk.yaml", odd.as_str());
    insta::assert_snapshot!(place.forge(&["validate"]));
}

#[test]
fn measurements_of_a_diagnosis_need_a_confirmation() {
    let out = place().forge(&["why-slow", "--measure"]);
    let hint = "hint: pass `--yes` to skip the confirmation, or leave out `--measure`\n";
    assert!(out.starts_with("exit 64") && out.ends_with(hint), "{out}");
    let alone = place().forge(&["why-slow", "--yes"]);
    assert!(alone.starts_with("exit 64") && alone.contains("--measure"), "{alone}");
}
