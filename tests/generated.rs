//! The generated files in the repository match the code. `FORGE_BLESS=1` writes them.

#![allow(clippy::disallowed_methods, clippy::expect_used, reason = "a panic fails the test")]

use forge::config;
use forge::diag::DiagCode;
use forge::facts;
use forge::model::ExitCode;
use forge::resource::{all_kinds, reference};
use forge::view::{recipe, schemas};
use std::path::Path;

/// Compares a file with the text that the code generates for it now.
#[track_caller]
fn holds(path: &str, text: &str) {
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join(path);
    if std::env::var_os("FORGE_BLESS").is_some() {
        std::fs::create_dir_all(file.parent().expect("the file has a folder")).expect("the folder is created");
        std::fs::write(&file, text).expect("the file is written");
        return;
    }
    let stands = std::fs::read_to_string(&file).unwrap_or_default();
    assert!(
        stands == text,
        "`{path}` differs from the generated text: run `FORGE_BLESS=1 cargo test --test generated` and review the diff"
    );
}

/// The recipe that the fleet tests apply to a bare host, twice. Then they change the result of each step and repair it.
const CONVERGE: &str = include_str!("fleet/recipes/web.yaml");

/// The proofs of single kinds, run by the fleet tests.
const PROOFS: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/fleet/kinds");

/// Returns the file of the fleet tests that proves `kind`, if there is one. `scripts/test` compares these labels with
/// the results of the fleet run: a label without a passed proof fails it.
fn real(kind: &str) -> Option<String> {
    let own = format!("tests/fleet/kinds/{kind}.yaml");
    let step = |line: &str| line.trim_start().starts_with(&format!("{kind}:"));
    if Path::new(PROOFS).join(format!("{kind}.yaml")).exists() {
        return Some(own);
    }
    if let Some(file) = proven("kinds", kind) {
        return Some(file);
    }
    CONVERGE.lines().any(step).then(|| "tests/fleet/recipes/web.yaml".to_owned())
}

/// Returns the proof of a kind or a recipe from the list of proofs written as code.
fn proven(what: &str, name: &str) -> Option<String> {
    let text = include_str!("fleet/proven.yaml");
    let all: serde_json::Value = serde_saphyr::from_str(text).expect("the list is YAML");
    all[what][name].as_str().map(str::to_owned)
}

/// Returns the section about the proof of a kind.
fn proof(kind: &str) -> String {
    let text = match real(kind) {
        Some(file) if file.starts_with("tests/fleet/cluster/") => {
            return format!(
                "\n## Proof\n\n**real**: `{file}` tests it with a real Kubernetes API (`tests/cluster`): applied, applied again, and \
                 repaired after a change made outside forge. The cases in `tests/resources/`, with reconstructed answers, also test the verdicts.\n"
            );
        }
        Some(file) if file.ends_with(".rs") => format!(
            "**real**: `{file}` tests it on a Debian 12 host over SSH: applied, applied again, and checked after a change made outside forge. \
             The cases in `tests/resources/` also test the verdicts; their host answers are reconstructed unless stated otherwise."
        ),
        Some(file) => format!(
            "**real**: `{file}` is applied to a Debian 12 host over SSH, twice, then changed outside forge and repaired. \
             The cases in `tests/resources/` also test the verdicts; their host answers are reconstructed unless stated \
             otherwise."
        ),
        None => "**recorded**: only the cases in `tests/resources/` test its verdicts and commands.".to_owned(),
    };
    format!("\n## Proof\n\n{text} Systems other than Debian 12 are not tested.\n")
}

#[test]
fn kind_reference_pages_are_up_to_date() {
    let mut index =
        String::from("# Kinds\n\nThe resources that a step can declare. Each page is generated from the code.\n\n");
    for kind in all_kinds() {
        index += &format!("- [`{}`]({}.md): {}\n", kind.name, kind.name, kind.summary);
        let page = reference::render_kind_page(kind) + &proof(kind.name);
        holds(&format!("docs/reference/kinds/{}.md", kind.name), &page);
    }
    holds("docs/reference/kinds/README.md", &index);
}

/// Returns the section about the proof of a built-in recipe: the tests on hosts, and the cases of its proof.
fn recipe_proof(recipe: &str) -> String {
    let read = |file: &str| std::fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join(file));
    let file = format!("tests/recipes/{recipe}.yaml");
    let cases = read(&file).unwrap_or_default().lines().filter(|line| line.starts_with("  - name: ")).count();
    let of = if cases == 1 { "the case".to_owned() } else { format!("the {cases} cases") };
    let pinned = format!("tested by {of} of `{file}`, on hosts with reconstructed answers");
    let shown = format!("tests/fleet/library/{recipe}.yaml");
    let text = match read(&shown) {
        Ok(proof) => format!(
            "**{}**: `{shown}`{} is applied to Debian 12 hosts over SSH, twice, then changed outside forge and repaired.{}{} \
             Verdicts are also {pinned}.",
            if simulated(&proof).is_empty() { "real" } else { "profile" },
            other_ways(recipe),
            simulated(&proof),
            unproven(&proof)
        ),
        Err(_) => whole(recipe, &pinned).unwrap_or_else(|| match proven("recipes", recipe) {
            Some(file) if file.starts_with("tests/fleet/cluster/") => format!(
                "**profile**: `{file}` applies it through a real Kubernetes API (`tests/cluster`), twice, changes it outside forge, repairs \
                 it and removes it, with a stand-in for the vendor's chart or manifests (`tests/cluster/charts`) and without the \
                 programs that would run in pods. Verdicts are also {pinned}."
            ),
            Some(file) if file.ends_with(".rs") => format!(
                "**profile**: `{file}` applies it to Debian 12 hosts over SSH, twice, changes them outside forge and repairs them, with \
                 stand-ins for the vendor's packages (`tests/fleet/stand-ins`). Verdicts are also {pinned}."
            ),
            Some(profile) => format!(
                "**profile**: it is applied to Debian 12 hosts over SSH with simulated hardware (`tests/fleet/profiles`, `{profile}`) and \
                 everything else real, until it is verified, and then again without changes. Verdicts are also {pinned}. It was not tested on \
                 real hardware."
            ),
            None => format!("**recorded**: its verdicts are {pinned}. It was not applied to any host."),
        }),
    };
    format!("\n## Proof\n\n{text}\n")
}

/// Returns the additional proofs of a recipe, one file per variant: `NAME@WAY.yaml`.
fn other_ways(recipe: &str) -> String {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fleet/library");
    let names = std::fs::read_dir(folder).expect("the folder").map(|entry| entry.expect("an entry").file_name());
    let mut names: Vec<String> = names.map(|name| name.to_string_lossy().into_owned()).collect();
    names.retain(|name| name.split_once('@').is_some_and(|(own, _)| own == recipe));
    names.sort();
    names.iter().map(|name| format!(" (and `tests/fleet/library/{name}`)")).collect()
}

/// Returns the text about the proof of a cluster recipe with a real API and without stand-ins.
fn whole(recipe: &str, pinned: &str) -> Option<String> {
    let file = proven("whole", recipe)?;
    Some(format!(
        "**real**: `{file}` applies it through a real Kubernetes API (`tests/cluster`), twice. Then objects that it \
         declares or reads are changed outside forge: forge detects these changes, repairs the declared objects, and removes them with the \
         recipe. No pods run there: the test writes the status that kubelets would report. Verdicts are also {pinned}."
    ))
}

/// Returns which parts of a proof's hosts are simulated. `proof.rs` of the fleet tests decides by the same two fields.
fn simulated(proof: &str) -> String {
    let proof: serde_json::Value = serde_saphyr::from_str(proof).expect("the proof is YAML");
    let board = proof["hardware"]
        .as_str()
        .map(|board| format!(" The hardware is simulated (`tests/fleet/profiles`, `{board}`)."));
    let files = proof["stand_ins"].as_array().into_iter().flatten().filter_map(serde_json::Value::as_str);
    let files: Vec<_> = files.map(|name| format!("`tests/fleet/stand-ins/{name}.sh`")).collect();
    let packs = format!(" Stand-ins replace the vendor's packages: {}.", files.join(", "));
    board.unwrap_or_default() + if files.is_empty() { "" } else { &packs }
}

/// Returns what the proof cannot test on such hosts, from its `unproven`.
fn unproven(proof: &str) -> String {
    let line = proof.lines().find_map(|line| line.strip_prefix("unproven: "));
    line.map_or_else(String::new, |what| format!(" Not tested: {}.", what.trim_matches('"')))
}

#[test]
fn recipe_reference_pages_are_up_to_date() {
    let mut index = String::from(
        "# Built-in recipes\n\nEvery inventory can apply them. A recipe of the same name in the inventory's own `recipes/` \
         overrides the built-in one. `forge recipes` lists them, `forge recipes NAME` shows one. Each page is generated from the recipe.\n\n",
    );
    for (name, _) in config::builtin_data::BUILTIN_RECIPES {
        let page = config::find_recipe_details(None, name).expect("a built-in recipe can be read");
        index += &format!("- [`{name}`]({name}.md): {}\n", page.line.summary);
        holds(&format!("docs/reference/recipes/{name}.md"), &(recipe::render_recipe(&page) + &recipe_proof(name)));
    }
    index += "\n## Tables\n\nRules read them: `table(\"driver-branches\")`.\n\n| table | content | source | date |\n|---|---|---|---|\n";
    for table in config::builtin_data::builtin_tables() {
        index += &format!("| `{}` | {} | {} | {} |\n", table.name, table.about, table.source, table.date);
    }
    holds("docs/reference/recipes/README.md", &index);
}

#[test]
fn schema_files_are_up_to_date() {
    for schema in schemas::list_schemas() {
        holds(&format!("schemas/{}", schema.file), &schemas::render_schema(&schema));
    }
}

#[test]
fn cli_reference_is_up_to_date() {
    holds("docs/reference/cli.md", &forge::cli::reference::render_markdown());
}

#[test]
fn exit_code_reference_is_up_to_date() {
    let mut page = String::from(
        "# Exit codes\n\nIf several apply, forge exits with the first in this table.\n\n| code | meaning |\n|---|---|\n",
    );
    for code in ExitCode::WORST_FIRST {
        page += &format!("| {} | {} |\n", code.code(), code.meaning());
    }
    holds("docs/reference/exit-codes.md", &page);
}

#[test]
fn error_code_reference_is_up_to_date() {
    let mut page = String::from(
        "# Error codes\n\nThe errors that `forge validate` reports. `forge explain CODE` shows one of these pages.\n\n| code | meaning |\n|---|---|\n",
    );
    for code in DiagCode::ALL {
        page += &format!("| [{0}](#{1}) | {2} |\n", code.id(), code.id().to_lowercase(), code.title());
    }
    for code in DiagCode::ALL {
        page += &format!("\n## {}\n\n**{}**\n\n{}", code.id(), code.title(), code.page());
    }
    holds("docs/reference/error-codes.md", &page);
}

#[test]
fn fact_reference_is_up_to_date() {
    let mut page = String::from(
        "# Facts\n\nTemplates read facts as `facts.NAME`; `forge facts` shows them. Null means that the host has no such item. If only a part \
         of a fact could not be read, that part is `{\"unknown\": \"why\"}`: a template that reads it is unknown with that reason.\n",
    );
    for fact in facts::all_facts() {
        page += &format!("\n## `{}`\n\n{}\n\n", fact.name, fact.doc);
        for (field, doc) in fact.fields {
            page += &format!("- `{field}`: {doc}\n");
        }
        let compared: Vec<String> = fact.alike.iter().map(|part| part.to_string()).collect();
        if !compared.is_empty() {
            page += &format!("\nShould be equal on similar hosts: {}\n", compared.join(", "));
        }
        let reads: Vec<String> = fact.reads.iter().map(|source| format!("`{source}`")).collect();
        page += &format!("\nReads: {}\n", reads.join(", "));
    }
    page += "\n# Facts of the cluster\n\nFrom the cluster's API, for steps, rules and verifications with `scope: cluster`. forge requests them only if a \
             recipe reads them.\n";
    for fact in facts::cluster_facts() {
        page += &format!("\n## `{}`\n\n{}\n\n", fact.name, fact.doc);
        for (field, doc) in fact.fields {
            page += &format!("- `{field}`: {doc}\n");
        }
        page += &format!("\nReads: `GET {}`\n", fact.path);
    }
    holds("docs/reference/facts.md", &page);
}
