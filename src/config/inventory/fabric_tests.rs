//! Tests of `fabric:`, declared and read from `ibnetdiscover`.

use super::*;
use crate::config::{LoadOptions, SecretPrograms, load_project};
use camino::Utf8Path;

const OPTIONS: LoadOptions<'_> =
    LoadOptions { trust: true, embedded: &[], env: &|_| None, programs: SecretPrograms::Skip };

const HOSTS: &str = "cluster: lab\nhosts:\n  gpu-[01:04]: { address: \"10.0.0.[1:4]\" }\n";

/// Returns the layout, or the messages of all errors with the lines of their places.
fn load_fabric(rest: &str, files: &[(&str, &str)]) -> Result<FabricLayout, Vec<String>> {
    let folder = tempfile::tempdir().unwrap();
    let path = Utf8Path::from_path(folder.path()).unwrap().join("inventory.yaml");
    fs_err::write(&path, format!("{HOSTS}{rest}")).unwrap();
    for (name, text) in files {
        fs_err::write(folder.path().join(name), text).unwrap();
    }
    let (project, diags, sources) = load_project(&path, &OPTIONS);
    let line = |span: &Span| sources.line_col(*span).0;
    let describe = |diag: &Diag| {
        let places: Vec<String> = diag
            .span
            .iter()
            .chain(diag.others.iter().map(|(span, _)| span))
            .map(|span| line(span).to_string())
            .collect();
        format!("{} @{}", diag.message, places.join(","))
    };
    project.map(|project| project.fabric).ok_or_else(|| diags.0.iter().map(describe).collect())
}

fn name_leaf(layout: &FabricLayout, host: &str, rail: Option<&str>) -> Option<String> {
    layout.name_leaf(&HostName::new(host), rail)
}

#[test]
fn range_of_leaves_has_one_adapter_of_each_host() {
    let layout = load_fabric(
        "fabric:\n  leaves:\n    leaf-[01:02]: { hosts: \"gpu-[01:02]\", rails: \"mlx5_[0:1]\" }\n    \
         leaf-03: { hosts: \"gpu-[03:04]\" }\n  spines: \"spine-[1:2]\"\n",
        &[],
    )
    .unwrap();
    assert_eq!(name_leaf(&layout, "gpu-02", Some("mlx5_1")).as_deref(), Some("leaf-02"));
    assert_eq!(name_leaf(&layout, "gpu-02", Some("mlx5_2")), None);
    assert_eq!(name_leaf(&layout, "gpu-02", None).as_deref(), Some("leaf-01, leaf-02"), "all of its leaves");
    assert_eq!(name_leaf(&layout, "gpu-04", Some("mlx5_7")).as_deref(), Some("leaf-03"));
}

#[test]
fn adapter_on_two_leaves_is_reported_with_both_places() {
    let twice = "fabric:\n  leaves:\n    a: { hosts: \"gpu-[01:03]\", rails: mlx5_0 }\n    \
         b: { hosts: gpu-03, rails: [mlx5_1, mlx5_0] }\n    c: { hosts: \"gpu-[01:02]\" }\n";
    assert_eq!(
        load_fabric(twice, &[]).unwrap_err(),
        [
            "adapter `mlx5_0` of host `gpu-03` is on two leaves @7,6",
            "the adapters of host `gpu-01` are on two leaves @8,6"
        ]
    );
}

#[test]
fn errors_of_a_fabric_are_reported() {
    let cases = [
        ("fabric: {}\n", "`fabric` declares no leaves @4"),
        ("fabric: { leaves: { \"l[1:2]\": { hosts: all } } }\n", "`l[1:2]` expands to 2 leaves, and `rails` to 0 @4"),
        ("fabric: { leaves: { a: { hosts: gpu-01 } }, spines: [a] }\n", "switch `a` is declared twice @4,4"),
        ("fabric: { leaves: { a: { hosts: gpu-01, rails: \"a b\" } } }\n", "invalid name in `rails`: `a b` @4"),
        (
            "fabric: { leaves: { a: { hosts: gpu-01 } }, ibnetdiscover: f }\n",
            "`ibnetdiscover` and `leaves` exclude each other @4,4",
        ),
    ];
    for (text, expected) in cases {
        let errors = load_fabric(text, &[("f", include_str!("../../../tests/samples/ibnetdiscover-ibsim.txt"))]);
        assert_eq!(errors.unwrap_err(), [expected], "{text}");
    }
}

#[test]
fn fabric_is_read_from_ibnetdiscover() {
    let text = include_str!("../../../tests/samples/ibnetdiscover-ibsim.txt");
    let layout = load_fabric("fabric: { ibnetdiscover: fabric.txt }\n", &[("fabric.txt", text)]).unwrap();
    let leaves: Vec<_> = ["gpu-01", "gpu-02", "gpu-03", "gpu-04"]
        .map(|host| ["mlx5_0", "mlx5_1"].map(|rail| name_leaf(&layout, host, Some(rail)).unwrap()))
        .concat();
    assert_eq!(leaves, ["leaf-01", "leaf-02", "leaf-01", "leaf-02", "leaf-03", "leaf-04", "leaf-03", "leaf-04"]);
    let foreign = include_str!("../../../tests/samples/ibnetdiscover.txt");
    let errors = load_fabric("fabric: { ibnetdiscover: fabric.txt }\n", &[("fabric.txt", foreign)]).unwrap_err();
    assert_eq!(errors, ["`fabric.txt`: no adapter has the name of a host of the inventory @4"]);
}

/// The switches of this recording have no names of their own.
#[test]
fn switches_of_the_same_description_are_named_by_their_guid() {
    let switches = parse_ibnetdiscover(include_str!("../../../tests/samples/ibnetdiscover.txt")).unwrap();
    let folder = tempfile::tempdir().unwrap();
    let path = Utf8Path::from_path(folder.path()).unwrap().join("inventory.yaml");
    fs_err::write(&path, "cluster: lab\nhosts: [\"node018\", \"node040.example.org\", \"controller\"]\n").unwrap();
    let project = load_project(&path, &OPTIONS).0.unwrap();
    let layout = place_switches(&switches, &project.hosts).unwrap();
    assert_eq!(name_leaf(&layout, "node018", Some("mlx5_3")).as_deref(), Some("switch ec0d9a0300ec8240"));
    assert_eq!(name_leaf(&layout, "node040.example.org", None).as_deref(), Some("switch ec0d9a0300f548c0"));
    assert_eq!(name_leaf(&layout, "controller", Some("mlx5_1")), None, "its description names `mlx5_0`");
}
