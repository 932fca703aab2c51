//! The container images of a saved plan: one per line on stdout. Images missing from the list are reported on stderr.

use super::support::Place;
use serde_json::{Value, json};

fn step(name: &str, verdict: &str, images: &[&str]) -> Value {
    json!({
        "id": { "recipe": "base", "step": name }, "kind": "manifest", "title": "objects", "verdict": verdict, "reason": "because",
        "disruption": "D0", "scope": "cluster", "level": "L0", "basis": "1", "place": "r.yaml:1:1", "long": false, "images": images,
    })
}

/// Returns a saved plan whose cluster has the reachability `reach`.
fn place(reach: &Value, steps: &[Value]) -> Place {
    let cluster = json!({ "host": "kubernetes", "reach": reach, "verify": [], "steps": steps });
    let plan =
        json!({ "version": 1, "forge": "0.1.0", "cluster": "c", "inventory": "i", "id": "1", "hosts": [cluster] });
    Place::new().file("plan.json", &json!({ "result": "plan", "plan": plan }).to_string())
}

fn one() -> Place {
    place(
        &json!("observed"),
        &[step("a", "ok", &["r/b:1", "r/a:1"]), step("b", "change", &["r/a:1"]), step("open", "unknown", &[])],
    )
}

#[test]
fn images_are_listed_and_unknown_ones_noted_on_stderr() {
    assert_eq!(
        one().forge(&["show", "plan.json", "--images"]),
        "exit 0\n--- stdout\nr/a:1\nr/b:1\n--- stderr\n\
         images of `base/open` are missing from the list: not known yet; see `forge plan`\n"
    );
}

#[test]
fn images_json_lists_the_steps_of_each_image() {
    let said = one().forge(&["show", "plan.json", "--images", "--format", "json"]);
    let text = said.split("--- stdout\n").nth(1).unwrap().split("--- stderr").next().unwrap();
    let document: Value = serde_json::from_str(text).unwrap();
    let step = |name: &str| json!({ "recipe": "base", "step": name });
    assert_eq!(document["images"], json!({ "r/a:1": [step("a"), step("b")], "r/b:1": [step("a")] }));
    assert_eq!((&document["open"], &document["silent"]), (&json!([step("open")]), &json!(false)));
}

#[test]
fn images_of_a_mirror_are_written_for_skopeo_with_their_sources() {
    let mut mirrored = step("m", "ok", &["mirror.example/nvidia/dcgm:4"]);
    mirrored["image_sources"] = json!({ "mirror.example/nvidia/dcgm:4": "nvcr.io/nvidia/cloud-native/dcgm:4" });
    let place = place(&json!("observed"), &[mirrored, step("a", "ok", &["r.example/a:1"])]);
    assert_eq!(
        place.forge(&["show", "plan.json", "--images", "--format", "skopeo"]),
        "exit 0\n--- stdout\n# skopeo sync --src yaml --dest docker --all FILE MIRROR\n# MIRROR: mirror.example/nvidia\n\
         \"nvcr.io\":\n  images:\n    \"nvidia/cloud-native/dcgm\": [\"4\"]\n\
         \"r.example\":\n  images:\n    \"a\": [\"1\"]\n--- stderr\n"
    );
    assert_eq!(
        place.forge(&["show", "plan.json", "--images"]),
        "exit 0\n--- stdout\nmirror.example/nvidia/dcgm:4\nr.example/a:1\n--- stderr\n"
    );
    assert!(place.forge(&["show", "plan.json", "--format", "skopeo"]).starts_with("exit 64\n"));
}

#[test]
fn unreachable_cluster_api_is_noted_on_stderr() {
    let place = place(&json!({ "unreachable": { "why": "it does not answer" } }), &[]);
    assert_eq!(
        place.forge(&["show", "plan.json", "--images"]),
        "exit 0\n--- stdout\n--- stderr\nimages of charts are missing from the list: the cluster's API did not answer; \
         `forge plan --images --kubernetes VERSION` does not ask it\n"
    );
}

#[test]
fn plan_without_images_prints_a_note() {
    assert_eq!(
        place(&json!("observed"), &[step("a", "ok", &[])]).forge(&["show", "plan.json", "--images"]),
        "exit 0\n--- stdout\n--- stderr\nno step of this plan runs a container image\n"
    );
}

#[test]
fn images_flag_is_rejected_for_markdown_and_runs() {
    assert_eq!(
        one().forge(&["show", "plan.json", "--images", "--format", "markdown"]),
        "exit 64\n--- stdout\n--- stderr\nerror: `--images` does not support `--format markdown`\n  \
         hint: omit one of them, or use `--format json`\n"
    );
    assert_eq!(
        one().forge(&["show", "last", "--images"]),
        "exit 64\n--- stdout\n--- stderr\nerror: `--images` is only supported for plans\n  \
         hint: show a run as text or JSON, or pass the file of a plan\n"
    );
}
