//! Kinds and hooks of a release from the user's point of view: what drift names, and why a hook failed.

use super::helm::{CHART, copy};
use super::support::{Cluster, Helm, Site, kubectl};

/// A site whose recipe installs the chart `tiny` in the namespace `name`.
fn site(api: &Cluster, helm: Helm, name: &str, fields: &str) -> Site {
    let site = Site::new(api, &api.kubeconfig, "test", helm);
    copy(CHART.as_ref(), &site.path("recipes/charts/tiny"), name);
    let inventory = std::fs::read_to_string(site.path("inventory.yaml")).expect("an inventory");
    let inventory = inventory.replace("cluster: site", &format!("cluster: {name}"));
    site.write("inventory.yaml", &format!("{inventory}apply: [{{ recipe: app, on: all }}]\n"));
    site.write(
        "recipes/app.yaml",
        &format!(
            "recipe: app\nsummary: A chart\nsteps:\n  - name: place\n    namespace: {{ name: {name} }}\n  \
             - name: chart\n    helm_release: {{ name: r, namespace: {name}, path: charts/tiny, version: 0.1.0, wait: false, {fields} }}\n\
             fails_as:\n  - {{ text: failed pre-install, cause: the image of the hook cannot be pulled }}\n"
        ),
    );
    site
}

#[test]
fn images_are_listed_before_the_cluster_exists() {
    let Some(api) = Cluster::require() else { return };
    for (helm, name) in [(Helm::Three, "noapi3"), (Helm::Four, "noapi4")] {
        let fields = "values: { extra: { enabled: true } }, mirror_values: { image: mirror.example/apps/tiny:1 }";
        let site = site(api, helm, name, fields);
        let inventory = std::fs::read_to_string(site.path("inventory.yaml")).expect("an inventory");
        site.write("inventory.yaml", &inventory.replace("context: test", "context: closed"));
        let silent = site.forge(&["plan", "--images", "inventory.yaml"]);
        assert!(silent.stdout.is_empty() && silent.to_string().contains("--kubernetes VERSION"), "{silent}");
        let plan = site.forge(&["plan", "--images", "--kubernetes", "1.34", "inventory.yaml"]);
        assert_eq!((plan.code, plan.stdout.as_str()), (0, "mirror.example/apps/tiny:1\n"), "{plan}");
        let sync = site.forge(&["plan", "--images", "--kubernetes", "1.34", "--format", "skopeo", "inventory.yaml"]);
        let file = "# skopeo sync --src yaml --dest docker --all FILE MIRROR\n# MIRROR: mirror.example/apps\n\
                    \"forge.local\":\n  images:\n    \"tiny\": [\"1\"]\n";
        assert_eq!((sync.code, sync.stdout.as_str()), (0, file), "{sync}");
    }
}

#[test]
fn missing_crd_and_its_objects_are_named_as_drift() {
    let Some(api) = Cluster::require() else { return };
    let name = "lostkind";
    let site = site(api, Helm::Four, name, "hooks: false");
    let out = site.forge(&["apply", "--yes", "inventory.yaml"]);
    assert_eq!(out.code, 0, "{out}");
    kubectl(&["delete", "crd", &format!("gadgets.{name}.forge.test")]);
    let drift = site.forge(&["drift", "inventory.yaml"]);
    for said in [
        format!("CustomResourceDefinition gadgets.{name}.forge.test: observed missing"),
        "Gadget r: observed missing".to_owned(),
    ] {
        assert!(drift.code == 2 && drift.stdout.contains(&said), "no `{said}` in {drift}");
    }
}

#[test]
fn failed_hook_reports_its_cause_and_that_of_the_recipe() {
    let Some(api) = Cluster::require() else { return };
    let three = "failed pre-install: 1 error occurred: timed out waiting for the condition";
    let four = "failed pre-install: resource Job/badhook4/r-hook not ready. status: InProgress, message: Job in progress; \
                context deadline exceeded";
    for (helm, name, said) in [(Helm::Three, "badhook3", three), (Helm::Four, "badhook4", four)] {
        let site = site(api, helm, name, "hooks: true, timeout: 3s, values: { hook: true }");
        let out = site.forge(&["apply", "--yes", "inventory.yaml"]);
        for said in [said, "hint: the image of the hook cannot be pulled"] {
            assert!(out.code != 0 && out.to_string().contains(said), "no `{said}` in {out}");
        }
    }
}
