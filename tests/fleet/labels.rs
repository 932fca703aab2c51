//! The label of each kind and recipe on each distribution, from the proof files: what `tests/generated.rs` writes to the
//! reference. `scripts/test` compares the labels with the proofs that passed.

use serde_json::Value;
use std::path::{Path, PathBuf};

/// Where a proof runs: the columns of docs/reference/proofs.md, with the folder of its marks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ProofPlace {
    Debian11,
    Debian12,
    Debian13,
    Ubuntu2204,
    Ubuntu2404,
    Rocky9,
    /// A real Kubernetes API.
    Api,
}

impl ProofPlace {
    pub const HOSTS: [ProofPlace; 6] =
        [Self::Debian11, Self::Debian12, Self::Debian13, Self::Ubuntu2204, Self::Ubuntu2404, Self::Rocky9];
    const RELEASES: [ProofPlace; 3] = [Self::Debian11, Self::Debian12, Self::Debian13];

    pub fn title(self) -> &'static str {
        match self {
            Self::Debian11 => "Debian 11",
            Self::Debian12 => "Debian 12",
            Self::Debian13 => "Debian 13",
            Self::Ubuntu2204 => "Ubuntu 22.04",
            Self::Ubuntu2404 => "Ubuntu 24.04",
            Self::Rocky9 => "Rocky 9",
            Self::Api => "Kubernetes API",
        }
    }

    /// Returns the folder of its marks.
    pub fn folder(self) -> &'static str {
        match self {
            Self::Debian11 => "debian-11",
            Self::Debian12 => "debian-12",
            Self::Debian13 => "debian-13",
            Self::Ubuntu2204 => "ubuntu-22.04",
            Self::Ubuntu2404 => "ubuntu-24.04",
            Self::Rocky9 => "rocky-9",
            Self::Api => "kubernetes-api",
        }
    }
}

/// One cell of the table.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ProofCell {
    /// Proven with the real programs of that place.
    Real,
    /// Proven with simulated hardware or stand-ins for packages.
    Profile,
    /// Proven by recorded cases only, for this reason.
    Recorded(String),
}

const SAME_PROGRAMS: &str = "not applied there: a host of the test fleet that claims this distribution runs the programs of \
     Debian 12, with which the column of Debian 12 proves it";
const NO_PACKAGES: &str = "not applied there: no test of it has packages like this distribution's";
const BOARDS: &str = "not applied there: the software of simulated boards is for Debian 12";
const NO_PROOF: &str = "not applied: a proof is missing, only its cases test it";

/// The proof of a kind or recipe.
pub struct SubjectProof {
    /// File that describes the proof, if it runs anywhere.
    pub file: Option<String>,
    /// Board of simulated hardware, if a test of a whole stack proves it.
    pub board: Option<String>,
    /// Whether it acts through the cluster's API.
    pub in_cluster: bool,
    pub cells: Vec<(ProofPlace, ProofCell)>,
}

impl SubjectProof {
    /// Returns the releases of Debian on which it is proven: `Debian 11, 12 and 13`.
    pub fn releases(&self) -> String {
        let proven = |place: &ProofPlace| self.cells.iter().any(|(at, cell)| at == place && is_proven(cell));
        let numbers: Vec<&str> = ProofPlace::RELEASES
            .iter()
            .filter(|place| proven(place))
            .map(|place| place.title().trim_start_matches("Debian "))
            .collect();
        match numbers.split_last() {
            Some((last, [])) => format!("Debian {last}"),
            Some((last, rest)) => format!("Debian {} and {last}", rest.join(", ")),
            None => String::new(),
        }
    }

    /// Returns the distributions that hosts claim in a proof, each with its file.
    pub fn claimed(&self, section: &str, name: &str) -> Vec<(ProofPlace, String)> {
        ProofPlace::HOSTS.into_iter().filter_map(|place| Some((place, claimed(place, section, name)?))).collect()
    }
}

pub fn is_proven(cell: &ProofCell) -> bool {
    matches!(cell, ProofCell::Real | ProofCell::Profile)
}

fn fleet() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fleet")
}

fn proven_list() -> Value {
    serde_saphyr::from_str(include_str!("proven.yaml")).expect("the list is YAML")
}

/// Returns the proof of a kind or a recipe from the list of proofs written as code.
pub fn proven(section: &str, name: &str) -> Option<String> {
    proven_list()[section][name].as_str().map(str::to_owned)
}

/// Returns the proof on a host that claims a distribution: one written as code, or a proof file with that claim.
fn claimed(place: ProofPlace, section: &str, name: &str) -> Option<String> {
    let coded = proven_list()["claimed"][place.folder()][section][name].as_str().map(str::to_owned);
    coded.or_else(|| {
        claims_of_files(section)
            .into_iter()
            .find(|claim| claim.place == place.folder() && claim.subject == name)
            .map(|claim| claim.file)
    })
}

/// A subject that a proof file proves on hosts that claim the distribution `place`.
struct FileClaim {
    subject: String,
    place: String,
    file: String,
}

/// Returns the claims of the proof files of a section, sorted by file.
fn claims_of_files(section: &str) -> Vec<FileClaim> {
    let folder = if section == "kinds" { "kinds" } else { "library" };
    let names =
        std::fs::read_dir(fleet().join(folder)).expect("the folder").map(|entry| entry.expect("an entry").file_name());
    let mut names: Vec<String> = names.map(|name| name.to_string_lossy().into_owned()).collect();
    names.sort();
    names.iter().flat_map(|name| claims_of_file(folder, name)).collect()
}

fn claims_of_file(folder: &str, name: &str) -> Vec<FileClaim> {
    let text = std::fs::read_to_string(fleet().join(folder).join(name)).expect("the file");
    let proof: Value = serde_saphyr::from_str(&text).expect("the proof is YAML");
    let list = |key: &str| -> Vec<String> {
        proof[key].as_array().into_iter().flatten().filter_map(Value::as_str).map(str::to_owned).collect()
    };
    let mut subjects = list("kinds");
    if subjects.is_empty() {
        subjects.extend(name.trim_end_matches(".yaml").split('@').next().map(str::to_owned));
    }
    let places = list("claims");
    let claim = |subject: &String, place: &String| FileClaim {
        subject: subject.clone(),
        place: place.clone(),
        file: format!("tests/fleet/{folder}/{name}"),
    };
    subjects.iter().flat_map(|subject| places.iter().map(move |place| claim(subject, place))).collect()
}

/// Returns a proof file of a recipe.
pub fn library(recipe: &str) -> Option<Value> {
    let text = std::fs::read_to_string(fleet().join(format!("library/{recipe}.yaml"))).ok()?;
    Some(serde_saphyr::from_str(&text).expect("the proof is YAML"))
}

/// Returns whether parts of the hosts of a proof file are simulated. `proof.rs` decides by the same two fields.
fn is_simulated(proof: &Value) -> bool {
    !proof["hardware"].is_null() || !proof["stand_ins"].is_null()
}

/// Returns why a proof file cannot run on a release of Debian. `proof.rs` decides by the same two fields.
fn reason_against(proof: &Value, place: ProofPlace) -> Option<String> {
    let declared = proof["not_on"][place.folder()].as_str().map(str::to_owned);
    let board = !proof["hardware"].is_null() && place != ProofPlace::Debian12;
    declared.or_else(|| board.then(|| BOARDS.to_owned()))
}

/// Returns the cells of a subject on hosts: `on_release` for releases of Debian, and `elsewhere` for claimed
/// distributions without a proof.
fn host_cells(
    section: &str,
    name: &str,
    on_release: impl Fn(ProofPlace) -> ProofCell,
    elsewhere: impl Fn(ProofPlace) -> &'static str,
) -> Vec<(ProofPlace, ProofCell)> {
    let cell = |place: ProofPlace| match place {
        _ if ProofPlace::RELEASES.contains(&place) => on_release(place),
        _ if claimed(place, section, name).is_some() => ProofCell::Profile,
        _ => ProofCell::Recorded(elsewhere(place).to_owned()),
    };
    ProofPlace::HOSTS.into_iter().map(|place| (place, cell(place))).collect()
}

/// Returns the proof of a kind that acts on hosts or, with `in_cluster`, through the cluster's API.
pub fn prove_kind(kind: &str, in_cluster: bool) -> SubjectProof {
    let own = format!("tests/fleet/kinds/{kind}.yaml");
    let declared = std::fs::read_to_string(fleet().join(format!("kinds/{kind}.yaml"))).ok();
    let declared: Option<Value> = declared.map(|text| serde_saphyr::from_str(&text).expect("the proof is YAML"));
    let web = || {
        let step = |line: &str| line.trim_start().starts_with(&format!("{kind}:"));
        include_str!("recipes/web.yaml").lines().any(step).then(|| "tests/fleet/recipes/web.yaml".to_owned())
    };
    let file = declared.as_ref().map(|_| own).or_else(|| proven("kinds", kind)).or_else(web);
    let on_release = |place| match declared.as_ref().and_then(|proof| reason_against(proof, place)) {
        Some(reason) => ProofCell::Recorded(reason),
        None if file.is_none() => ProofCell::Recorded("not applied to any host".to_owned()),
        None => ProofCell::Real,
    };
    let cells = match in_cluster {
        true => vec![(ProofPlace::Api, on_release(ProofPlace::Api))],
        false => host_cells("kinds", kind, on_release, |_| SAME_PROGRAMS),
    };
    SubjectProof { file, board: None, in_cluster, cells }
}

/// Returns whether a recipe installs packages, which differ between distributions, or consists of other recipes.
fn installs_packages(text: &str) -> bool {
    ["package:", "repository:", "apt_repository:", "installer:"].iter().any(|key| {
        text.lines().any(|line| {
            let line = line.trim_start().trim_start_matches("- ").trim_start_matches("{ ");
            line.starts_with(key)
        })
    })
}

/// Where the steps of a recipe act.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum RecipeReach {
    Hosts,
    Cluster,
    /// A stack of other recipes.
    Stack,
}

/// Returns the proof of a built-in recipe, from its text.
pub fn prove_recipe(recipe: &str, text: &str, reach: RecipeReach) -> SubjectProof {
    let packages = reach == RecipeReach::Stack || installs_packages(text);
    let elsewhere = |_| if packages { NO_PACKAGES } else { SAME_PROGRAMS };
    let hosts = |on_release: &dyn Fn(ProofPlace) -> ProofCell| host_cells("recipes", recipe, on_release, elsewhere);
    if let Some(proof) = library(recipe) {
        let label = if is_simulated(&proof) { ProofCell::Profile } else { ProofCell::Real };
        let on_release = |place| reason_against(&proof, place).map_or(label.clone(), ProofCell::Recorded);
        let file = Some(format!("tests/fleet/library/{recipe}.yaml"));
        return SubjectProof { file, board: None, in_cluster: false, cells: hosts(&on_release) };
    }
    let api = |file: Option<String>, cell| SubjectProof {
        file,
        board: None,
        in_cluster: true,
        cells: vec![(ProofPlace::Api, cell)],
    };
    if let Some(file) = proven("whole", recipe) {
        return api(Some(file), ProofCell::Real);
    }
    match proven("recipes", recipe) {
        Some(file) if file.starts_with("tests/fleet/cluster/") => api(Some(file), ProofCell::Profile),
        Some(file) if file.ends_with(".rs") => {
            let against =
                |place: ProofPlace| proven_list()["not_on"][recipe][place.folder()].as_str().map(str::to_owned);
            let cells = hosts(&|place| against(place).map_or(ProofCell::Profile, ProofCell::Recorded));
            SubjectProof { file: Some(file), board: None, in_cluster: false, cells }
        }
        Some(board) => {
            let on_release = |place| match place {
                ProofPlace::Debian12 => ProofCell::Profile,
                _ => ProofCell::Recorded(BOARDS.to_owned()),
            };
            SubjectProof { file: None, board: Some(board), in_cluster: false, cells: hosts(&on_release) }
        }
        None => {
            let cell = ProofCell::Recorded(proven("recorded", recipe).unwrap_or_else(|| NO_PROOF.to_owned()));
            match reach {
                RecipeReach::Cluster => api(None, cell),
                RecipeReach::Hosts | RecipeReach::Stack => {
                    SubjectProof { file: None, board: None, in_cluster: false, cells: hosts(&|_| cell.clone()) }
                }
            }
        }
    }
}
