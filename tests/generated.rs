//! The generated files in the repository match the code. `FORGE_BLESS=1` writes them.

#![allow(clippy::disallowed_methods, clippy::expect_used, reason = "a panic fails the test")]

#[path = "fleet/labels.rs"]
mod labels;
#[path = "fleet/proof_table.rs"]
mod proof_table;

use forge::config;
use forge::diag::DiagCode;
use forge::facts;
use forge::model::ExitCode;
use forge::resource::{all_kinds, reference};
use forge::view::{recipe, schemas};
use labels::{ProofCell, RecipeReach, SubjectProof};
use proof_table::ProofRow;
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

/// Returns the section about the proof of a kind.
fn render_kind_proof(kind: &str, proof: &SubjectProof) -> String {
    let Some(file) = &proof.file else {
        return "\n## Proof\n\n**recorded**: only the cases in `tests/resources/` test its verdicts and commands.\n"
            .to_owned();
    };
    if proof.in_cluster {
        return format!(
            "\n## Proof\n\n**real**: `{file}` tests it with a real Kubernetes API (`tests/cluster`): applied, applied again, and \
             repaired after a change made outside forge. The cases in `tests/resources/`, with reconstructed answers, also test the verdicts.\n"
        );
    }
    let how = match file.ends_with(".rs") {
        true => "tests it on hosts over SSH: applied, applied again, and checked after a change made outside forge",
        false => "is applied to hosts over SSH, twice, then changed outside forge and repaired",
    };
    format!(
        "\n## Proof\n\n**real** on {}: `{file}` {how}.{} The cases in `tests/resources/` also test the verdicts; their host \
         answers are reconstructed unless stated otherwise. [All distributions](../proofs.md).\n",
        proof.releases(),
        render_claims(proof, "kinds", kind)
    )
}

/// Returns the proofs on hosts that claim another distribution.
fn render_claims(proof: &SubjectProof, section: &str, name: &str) -> String {
    let claims = proof.claimed(section, name).into_iter();
    claims
        .map(|(place, file)| {
            let (title, folder) = (place.title(), place.folder());
            format!(
                " **profile ({folder} packages)**: `{file}` applies it to hosts with Debian 12's programs that claim to be {title}, \
                 with packages like those of its vendors."
            )
        })
        .collect()
}

#[test]
fn kind_reference_pages_are_up_to_date() {
    let mut index = String::from(
        "# Kinds\n\nThe resources that a step can declare. Each page is generated from the code. [Proofs](../proofs.md) shows where each is \
         proven.\n\n",
    );
    for kind in all_kinds() {
        index += &format!("- [`{}`]({}.md): {}\n", kind.name, kind.name, kind.summary);
        let proof = labels::prove_kind(kind.name, kind.traits.in_cluster);
        let page = reference::render_kind_page(kind) + &render_kind_proof(kind.name, &proof);
        holds(&format!("docs/reference/kinds/{}.md", kind.name), &page);
    }
    holds("docs/reference/kinds/README.md", &index);
}

/// Returns the section about the proof of a built-in recipe: the tests on hosts, and the cases of its proof.
fn render_recipe_proof(recipe: &str, proof: &SubjectProof) -> String {
    let file = format!("tests/recipes/{recipe}.yaml");
    let cases = std::fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join(&file)).unwrap_or_default();
    let cases = cases.lines().filter(|line| line.starts_with("  - name: ")).count();
    let of = if cases == 1 { "the case".to_owned() } else { format!("the {cases} cases") };
    let pinned = format!("tested by {of} of `{file}`, on hosts with reconstructed answers");
    let text = render_proof_text(recipe, proof, &pinned) + &render_claims(proof, "recipes", recipe);
    let link = if proof.in_cluster { "" } else { " [All distributions](../proofs.md)." };
    format!("\n## Proof\n\n{text}{link}\n")
}

fn render_proof_text(recipe: &str, proof: &SubjectProof, pinned: &str) -> String {
    let releases = proof.releases();
    let is_real = proof.cells.iter().any(|(_, cell)| *cell == ProofCell::Real);
    match (&proof.file, &proof.board) {
        (Some(file), _) if proof.in_cluster && is_real => format!(
            "**real**: `{file}` applies it through a real Kubernetes API (`tests/cluster`), twice. Then objects that it \
             declares or reads are changed outside forge: forge detects these changes, repairs the declared objects, and removes them with the \
             recipe. No pods run there: the test writes the status that kubelets would report. Verdicts are also {pinned}."
        ),
        (Some(file), _) if proof.in_cluster => format!(
            "**profile**: `{file}` applies it through a real Kubernetes API (`tests/cluster`), twice, changes it outside forge, repairs \
             it and removes it, with a stand-in for the vendor's chart or manifests (`tests/cluster/charts`) and without the \
             programs that would run in pods. Verdicts are also {pinned}."
        ),
        (Some(file), _) if file.ends_with(".rs") => format!(
            "**profile** on {releases}: `{file}` applies it to hosts over SSH, twice, changes them outside forge and repairs them, with \
             stand-ins for the vendor's packages (`tests/fleet/stand-ins`). Verdicts are also {pinned}."
        ),
        (Some(file), _) => {
            let shown = labels::library(recipe).unwrap_or_default();
            format!(
                "**{}** on {releases}: `{file}`{} is applied to hosts over SSH, twice, then changed outside forge and repaired.{}{} \
                 Verdicts are also {pinned}.",
                if is_real { "real" } else { "profile" },
                render_other_ways(recipe),
                render_simulated(&shown),
                render_unproven(&shown)
            )
        }
        (None, Some(board)) => format!(
            "**profile** on {releases}: it is applied to hosts over SSH with simulated hardware (`tests/fleet/profiles`, `{board}`) and \
             everything else real, until it is verified, and then again without changes. Verdicts are also {pinned}. It was not tested on \
             real hardware."
        ),
        (None, None) => format!("**recorded**: its verdicts are {pinned}. It was not applied to any host."),
    }
}

/// Returns the additional proofs of a recipe, one file per variant: `NAME@WAY.yaml`.
fn render_other_ways(recipe: &str) -> String {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fleet/library");
    let names = std::fs::read_dir(folder).expect("the folder").map(|entry| entry.expect("an entry").file_name());
    let mut names: Vec<String> = names.map(|name| name.to_string_lossy().into_owned()).collect();
    names.retain(|name| name.split_once('@').is_some_and(|(own, _)| own == recipe));
    // The others are listed with the distribution that their hosts claim to be.
    names.retain(|name| {
        labels::library(name.trim_end_matches(".yaml")).is_some_and(|proof| proof["on_debian"] != false)
    });
    names.sort();
    names.iter().map(|name| format!(" (and `tests/fleet/library/{name}`)")).collect()
}

/// Returns which parts of a proof's hosts are simulated.
fn render_simulated(proof: &serde_json::Value) -> String {
    let board = proof["hardware"]
        .as_str()
        .map(|board| format!(" The hardware is simulated (`tests/fleet/profiles`, `{board}`)."));
    let files = proof["stand_ins"].as_array().into_iter().flatten().filter_map(serde_json::Value::as_str);
    let files: Vec<_> = files.map(|name| format!("`tests/fleet/stand-ins/{name}.sh`")).collect();
    let packs = format!(" Stand-ins replace the vendor's packages: {}.", files.join(", "));
    board.unwrap_or_default() + if files.is_empty() { "" } else { &packs }
}

/// Returns what the proof cannot test on such hosts, from its `unproven`.
fn render_unproven(proof: &serde_json::Value) -> String {
    proof["unproven"].as_str().map_or_else(String::new, |what| format!(" Not tested: {what}."))
}

/// Returns whether the steps of a recipe act on hosts or through the cluster's API.
fn find_reach(page: &config::RecipeDetails) -> RecipeReach {
    let in_cluster = |name: &str| all_kinds().iter().any(|kind| kind.name == name && kind.traits.in_cluster);
    match page.steps.iter().any(|step| !in_cluster(step.kind)) {
        _ if !page.uses.is_empty() => RecipeReach::Stack,
        true => RecipeReach::Hosts,
        false => RecipeReach::Cluster,
    }
}

#[test]
fn proof_table_is_up_to_date() {
    let kinds = all_kinds().iter().map(|kind| ProofRow {
        name: kind.name.to_owned(),
        page: format!("kinds/{}.md", kind.name),
        proof: labels::prove_kind(kind.name, kind.traits.in_cluster),
    });
    let recipes = config::builtin_data::BUILTIN_RECIPES.iter().map(|(name, text)| {
        let page = config::find_recipe_details(None, name).expect("a built-in recipe can be read");
        let proof = labels::prove_recipe(name, text, find_reach(&page));
        ProofRow { name: (*name).to_owned(), page: format!("recipes/{name}.md"), proof }
    });
    let (api_kinds, host_kinds) = kinds.partition(|row| row.proof.in_cluster);
    let (api_recipes, host_recipes) = recipes.partition(|row| row.proof.in_cluster);
    let tables = [
        ("Kinds on hosts", host_kinds),
        ("Recipes on hosts", host_recipes),
        ("Kinds of the cluster", api_kinds),
        ("Recipes of the cluster", api_recipes),
    ];
    holds("docs/reference/proofs.md", &proof_table::render_proof_table(&tables));
}

#[test]
fn recipe_reference_pages_are_up_to_date() {
    let mut index = String::from(
        "# Built-in recipes\n\nEvery inventory can apply them. A recipe of the same name in the inventory's own `recipes/` \
         overrides the built-in one. `forge recipes` lists them, `forge recipes NAME` shows one. Each page is generated from the recipe. [Proofs](../proofs.md) shows \
         where each is proven.\n\n",
    );
    for (name, text) in config::builtin_data::BUILTIN_RECIPES {
        let page = config::find_recipe_details(None, name).expect("a built-in recipe can be read");
        index += &format!("- [`{name}`]({name}.md): {}\n", page.line.summary);
        let proof = labels::prove_recipe(name, text, find_reach(&page));
        let text = recipe::render_recipe(&page) + &render_recipe_proof(name, &proof);
        holds(&format!("docs/reference/recipes/{name}.md"), &text);
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
