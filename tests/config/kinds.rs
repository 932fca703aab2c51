//! The example at the top of each kind's page is valid: forge reads, checks and builds it.

use camino::Utf8Path;
use forge::config::{self, ExpansionInputs, ExpansionState, ExportedValues, FactSource, LoadOptions, StepExpander};
use forge::resource::{self, all_kinds};

/// Returns the text of a recipe with these steps.
fn recipe(steps: &str) -> String {
    let steps: String = steps.lines().map(|line| format!("  {line}\n")).collect();
    format!("recipe: example\nparams: {{ token: {{ type: secret }} }}\nsteps:\n{steps}")
}

const INVENTORY: &str = "cluster: lab\nkubernetes: { kubeconfig: kubeconfig, context: lab }\nhosts: [gpu-01, gpu-02]\n\
                         apply: [{ recipe: example, on: all, with: { token: { env: TOKEN } } }]\n";

#[test]
fn example_of_every_kind_is_valid() {
    let folder = tempfile::tempdir().unwrap();
    let root = Utf8Path::from_path(folder.path()).unwrap();
    std::fs::create_dir(root.join("recipes")).unwrap();
    std::fs::write(root.join("inventory.yaml"), INVENTORY).unwrap();
    std::fs::write(root.join("kubeconfig"), "").unwrap();
    let env = |name: &str| (name == "TOKEN").then(|| "hunter2".to_owned());
    for kind in all_kinds() {
        std::fs::write(root.join("recipes/example.yaml"), recipe(kind.example)).unwrap();
        let options =
            LoadOptions { trust: false, embedded: &[], env: &env, programs: forge::config::SecretPrograms::Skip };
        let (project, diags, sources) = config::load_project(&root.join("inventory.yaml"), &options);
        assert!(diags.0.is_empty(), "{}:\n{}", kind.name, super::rendered(&diags, &sources, root));
        let project = project.unwrap();
        let expander = StepExpander::new(&project);
        let exports = ExportedValues::new();
        let known = ExpansionInputs { facts: FactSource::NotYet, exports: &exports };
        let built = project.instances.iter().flat_map(|(host, own)| own.iter().map(move |instance| (host, instance)));
        let mut found = 0;
        for (host, instance) in built {
            for step in &instance.recipe.steps {
                for turn in expander.expand_step(&project.hosts[host], instance, step, &known).iter() {
                    let ExpansionState::Resource(resource) = &turn.state else {
                        panic!("{}: {:?}", kind.name, turn.state)
                    };
                    assert!(!resource.probes().is_empty(), "{}: no probe", kind.name);
                    found += usize::from(resource.kind() == kind.name);
                }
            }
        }
        assert_ne!(found, 0, "the example of `{}` has no step of this kind", kind.name);
    }
}

#[test]
fn the_page_of_every_kind_begins_with_its_example() {
    for kind in all_kinds() {
        let head = format!("# `{}`\n\n{}\n\n```yaml\n{}```\n", kind.name, kind.summary, kind.example);
        assert!(resource::reference::render_kind_page(kind).starts_with(&head), "{}", kind.name);
    }
}
