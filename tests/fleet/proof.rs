//! Proofs on real hosts, without code: a file declares the recipe, checks of the result, tampers, and a check after
//! removal. The recipe is applied twice, tampered with, repaired with the plan that drift saves, and removed. On
//! Debian 12, the first apply of a kind is undone before all that.

use crate::distribution::{ClaimedDistribution, Distribution, ProofSystem};
use crate::support::{Node, Output, Project};
use base64::Engine as _;
use serde::Deserialize;
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

/// Folder of the marks of passed proofs, one folder per distribution; `scripts/test` compares them with the cells of
/// docs/reference/proofs.md.
const MARKS: &str = concat!(env!("CARGO_TARGET_TMPDIR"), "/proof");
/// File in which drift saves its repair plan.
const REPAIR: &str = "repair.json";

/// One proof file.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Proof {
    /// The kinds that it proves. Default: the one that the file is named after.
    #[serde(default)]
    pub kinds: Vec<String>,
    /// Number of hosts. `before`, `holds` and `removed` run on each, tampers on the first.
    #[serde(default = "one")]
    pub hosts: usize,
    /// Whether a recipe in `beside` is pending until this one has run, so that a plan exits 10, not 2.
    #[serde(default)]
    awaited: bool,
    /// Script that runs on the node before the first apply.
    #[serde(default)]
    pub before: String,
    /// Whether each node reboots after `before`: installed drivers are loaded only at boot.
    #[serde(default)]
    boots: bool,
    /// The text of `recipes/proof.yaml`. Default: the built-in recipe that the file is named after.
    recipe: Option<String>,
    /// Parameters of a built-in recipe.
    #[serde(default)]
    with: Parameters,
    /// Whether the inventory permits reboots.
    #[serde(default)]
    reboots: bool,
    /// Other built-in recipes on the same hosts, with their parameters. They stay applied when this one is removed.
    #[serde(default)]
    beside: BTreeMap<String, Parameters>,
    /// A board of `hardware/boards` that every node gets: the proof does not count as one on real hardware.
    pub hardware: Option<String>,
    /// Files of `tests/fleet/stand-ins`: vendor packages that nodes cannot have. The proof does not count as one with
    /// real packages.
    #[serde(default)]
    pub stand_ins: Vec<String>,
    /// Distributions on which it cannot run, each with the reason; printed in docs/reference/proofs.md.
    #[serde(default)]
    pub not_on: BTreeMap<String, String>,
    /// Distributions that hosts of Debian 12 claim to be in further runs, with the first tamper only. Such a run never
    /// counts as one with real packages.
    #[serde(default)]
    pub claims: Vec<ClaimedDistribution>,
    /// Script that runs on the node before it claims to be another distribution, while it still has apt.
    #[serde(default)]
    before_claim: String,
    /// Whether it also runs on hosts that say they are Debian.
    #[serde(default = "yes")]
    pub on_debian: bool,
    /// The parts of a built-in recipe that such hosts cannot prove; printed next to the label.
    #[serde(default, rename = "unproven")]
    _unproven: String,
    /// Whether the first apply is undone, after which the node is as before. Not if the recipe only waits.
    #[serde(default = "yes")]
    undone: bool,
    /// Steps of a recipe that is undone whose change cannot be: the undo refuses exactly these. The rest is undone, but
    /// not compared.
    #[serde(default)]
    irreversible: BTreeMap<String, String>,
    /// What the undo leaves: a part of a line of the snapshot, with the words of the undo about it.
    #[serde(default)]
    remains: BTreeMap<String, String>,
    /// Exits 0 on the node once the first apply is undone, for what the snapshot does not compare.
    #[serde(default)]
    after_undo: String,
    /// Exits 0 on the node once the recipe is applied.
    pub holds: String,
    /// Changes of other programs that forge must leave, in order, before the tampers.
    #[serde(default)]
    foreign: Vec<ForeignChange>,
    /// Changes that no step declares, after the foreign ones: a verification of the recipe names them.
    #[serde(default)]
    faults: Vec<FoundFault>,
    pub tampers: Vec<Tamper>,
    /// Exits 0 on the node once the recipe is removed. If missing, the recipe is never removed.
    removed: Option<String>,
    /// Other files of the project.
    #[serde(default)]
    files: BTreeMap<String, String>,
    /// Other binary files of the project, in base64.
    #[serde(default)]
    binary: BTreeMap<String, String>,
}

/// Prints what a recipe may change, as the node's own programs say: files with owner, mode and digest, packages,
/// accounts, units, mounts, rules and kernel settings. Left out are caches and the files that hold the former accounts.
const SNAPSHOT: &str = r#"
places="/etc /opt /srv /home /root /boot /usr/local /scratch /lib/modules"
find $places -xdev \( -name '*.cache' -o -path '/etc/passwd-' -o -path '/etc/group-' -o -path '/etc/shadow-' \
  -o -path '/etc/gshadow-' -o -path '/etc/subuid-' -o -path '/etc/subgid-' \) -prune -o \
  \( -printf '%p %y %m %u:%g %l\n' -type f -exec sha256sum -- {} + \) 2>/dev/null | sort
dpkg-query -W -f 'package ${Package} ${Version} ${db:Status-Want} ${db:Status-Status}\n'
getent passwd | sed 's/^/account /'
getent group | sed 's/^/group /'
systemctl list-unit-files --no-legend --plain --no-pager --type=service,timer,mount | sed 's/^/unit /'
systemctl list-units --no-legend --plain --no-pager --state=active --type=service,timer,mount |
  awk '$1 !~ /^(user|systemd-|run-|modprobe@)/ { print "running", $1, $3, $4 }'
findmnt -rn -o TARGET,FSTYPE | sed 's/^/mount /'
if command -v nft >/dev/null; then nft -s list ruleset | sed 's/^/rule /'; fi
cd /proc/sys/net/ipv4 && grep -H . ip_forward tcp_rmem conf/all/log_martians conf/all/accept_source_route
"#;

/// Returns the lines that only one of two snapshots has, with `-` and `+`.
fn differing_lines(before: &str, after: &str) -> Vec<String> {
    let (old, new): (BTreeSet<&str>, BTreeSet<&str>) = (before.lines().collect(), after.lines().collect());
    let lost = old.difference(&new).map(|line| format!("- {line}"));
    lost.chain(new.difference(&old).map(|line| format!("+ {line}"))).collect()
}

fn count_changes(count: usize) -> String {
    if count == 1 { "1 change".to_owned() } else { format!("{count} changes") }
}

type Parameters = BTreeMap<String, serde_json::Value>;

fn one() -> usize {
    1
}

fn yes() -> bool {
    true
}

/// A change made without forge.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Tamper {
    /// Script that makes it.
    r#do: String,
    /// The step that a plan must report. No other step may be reported, except `follows`.
    step: String,
    /// Steps that its repair triggers, such as a restart.
    #[serde(default)]
    follows: Vec<String>,
    /// Exits 0 on the node once it is repaired.
    holds: String,
}

/// A change that another program makes and owns: forge neither reports nor undoes it.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct ForeignChange {
    /// Script that makes it.
    r#do: String,
    /// Exits 0 on the node afterwards, also after another apply.
    holds: String,
}

/// A change that makes the declared state ineffective.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct FoundFault {
    /// Script that makes it.
    r#do: String,
    /// The verification that drift reports, without its recipe.
    verification: String,
    /// Script that takes it back.
    ends: String,
}

/// Records that `subject` passed its proof on a distribution.
pub fn mark_on(distribution: Distribution, subject: &str) {
    write_mark(distribution.name(), subject);
}

/// Records that `subject` passed its proof through a cluster's API.
pub fn mark_api(subject: &str) {
    write_mark("kubernetes-api", subject);
}

/// Records that `subject`, a kind or a recipe, passed its proof on a host that claims to be a distribution, with packages
/// like its vendor's.
pub fn mark_claimed(distribution: ClaimedDistribution, subject: &str) {
    write_mark(distribution.name(), &format!("profiles/{subject}"));
}

fn write_mark(place: &str, subject: &str) {
    let path = Path::new(MARKS).join(place).join(subject);
    fs_err::create_dir_all(path.parent().expect("a folder")).expect("a folder");
    fs_err::write(path, "").expect("a file");
}

/// Builds stand-ins for vendor packages on `node` and adds them as an apt source. `name` is a file of
/// `tests/fleet/stand-ins`.
pub fn stand_in(node: &Node, name: &str) {
    let here = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fleet");
    let text = |file: &str| fs_err::read_to_string(here.join(file)).expect("a script");
    let base = text("base.sh").replace(". \"$HERE/../../hardware/pack.sh\"", &text("../../hardware/pack.sh"));
    let pack = base + &text("stand-ins/pack.sh") + &text(&format!("stand-ins/{name}.sh")) + "\npacked\n";
    node.write("/root/stand-in", pack);
    node.must("bash -eu /root/stand-in && rm /root/stand-in");
}

/// Records that every recipe in an inventory was applied successfully on simulated hardware.
pub fn mark_profile(inventory: &str) {
    let names = inventory.split("recipe: ").skip(1).map(|rest| rest.split([',', '\n', ' ']).next().unwrap_or_default());
    names.for_each(|name| mark_on(Distribution::Debian12, &format!("profiles/{name}")));
}

#[track_caller]
fn expect(out: &Output, code: i32, when: &str) {
    assert_eq!(out.code, code, "{when}: {out}");
}

/// Returns the document that a verb printed.
fn parsed(out: &Output) -> serde_json::Value {
    serde_json::from_str(&out.stdout).expect("a document")
}

impl Proof {
    /// Returns whether it runs on hosts of Debian 12.
    pub fn runs_on_debian_12(&self) -> bool {
        self.on_debian && !self.not_on.contains_key(Distribution::Debian12.name())
    }

    /// Returns whether a run may reboot the nodes, which takes a while.
    pub fn may_reboot(&self) -> bool {
        self.reboots
    }

    /// Prepares the nodes before the first apply: the hardware first, because packages detect it. What is Debian's is
    /// installed before a host claims to be another distribution, where apt may be missing.
    pub fn equip(&self, nodes: &[Node], system: ProofSystem) {
        for node in nodes {
            self.hardware.iter().for_each(|board| node.profile(board));
            self.stand_ins.iter().for_each(|name| stand_in(node, name));
            if let ProofSystem::Claimed(distribution) = system {
                node.must(&self.before_claim);
                node.claim(distribution);
            }
        }
        nodes.iter().for_each(|node| _ = node.must(&self.before));
        for node in nodes.iter().filter(|_| self.boots) {
            node.stop();
            node.start();
        }
    }

    /// Returns the project that applies it, as the proof file `name`, to `nodes`.
    pub fn build_project(&self, name: &str, nodes: &[Node]) -> Project {
        let inventory = fill_digests(&inventory(self.recipe_name(name), self, false), &nodes[0]);
        let project = Project::new(nodes).inventory(&inventory);
        let project = self.recipe.iter().fold(project, |project, text| project.recipe(OWN_RECIPE, text));
        let project = self.files.iter().fold(project, |project, (path, text)| project.file(path, text));
        for (path, text) in &self.binary {
            let words: String = text.split_whitespace().collect();
            let path = project.path(path);
            fs_err::create_dir_all(path.parent().expect("a folder")).expect("a folder");
            fs_err::write(path, base64::engine::general_purpose::STANDARD.decode(words).expect("base64"))
                .expect("a file");
        }
        project
    }

    /// Returns the recipe under test. A recipe may have several proof files, `NAME@WAY`.
    fn recipe_name<'a>(&self, name: &'a str) -> &'a str {
        if self.recipe.is_some() { OWN_RECIPE } else { name.split('@').next().unwrap_or_default() }
    }
}

/// Name of the recipe whose text a proof file contains.
const OWN_RECIPE: &str = "proof";

struct Trial<'a> {
    proof: &'a Proof,
    recipe: &'a str,
    system: ProofSystem,
    project: Project,
    nodes: &'a [Node],
}

impl Trial<'_> {
    fn must(&self, script: &str) {
        self.nodes.iter().for_each(|node| _ = node.must(script));
    }

    /// Returns the steps of the recipe that do not match, from a plan in JSON.
    fn changing(&self, document: &serde_json::Value) -> Vec<String> {
        let hosts = document["plan"]["hosts"].as_array().expect("a list").iter();
        let found = hosts.flat_map(|host| host["steps"].as_array().expect("a list")).filter(|step| {
            step["id"]["recipe"] == self.recipe
                && !matches!(step["verdict"].as_str().expect("a verdict"), "ok" | "not-applicable")
        });
        // `STEP[KEY]` is one item of a step with `each`.
        let name = |step: &serde_json::Value| {
            let id = step["id"]["step"].as_str().expect("a name");
            id.split('[').next().unwrap_or(id).to_owned()
        };
        found.map(name).collect::<BTreeSet<_>>().into_iter().collect()
    }

    fn apply(&self, when: &str) -> Output {
        let out = self.project.forge(["apply", "inventory.yaml", "--yes"]);
        expect(&out, 0, when);
        out
    }

    fn plan(&self, code: i32, when: &str) -> Output {
        let out = self.project.forge(["plan", "inventory.yaml", "--detailed-exitcode", "--format", "json"]);
        expect(&out, code, when);
        out
    }

    /// Makes a plan that must have changes.
    fn due(&self, when: &str) -> Output {
        self.plan(if self.proof.awaited { 10 } else { 2 }, when)
    }

    fn settled(&self, when: &str) {
        let again = self.apply(when);
        assert!(again.stdout.contains("no changes:"), "{when}: {again}");
    }

    /// Applies the recipe and undoes that: the nodes are as before, as their own programs say. Changes that cannot be
    /// undone are refused by name, and the plan marks them.
    fn undoes(&self) {
        let before: Vec<String> = self.nodes.iter().map(|node| node.must(SNAPSHOT)).collect();
        let planned = parsed(&self.due("before the apply to undo"));
        self.apply("the apply to undo");
        let undo = |last: &[&str]| {
            self.project.forge(["undo", "last", "-i", "inventory.yaml", "--yes"].iter().chain(last).copied())
        };
        let irreversible = &self.proof.irreversible;
        let marked = self.marked(&planned);
        assert!(marked.keys().all(|step| irreversible.contains_key(step)), "{marked:?}");
        let out = undo(&[]);
        if !irreversible.is_empty() {
            expect(&out, 3, "an undo of what cannot be undone");
            let refused = format!("{} of run", count_changes(irreversible.len()));
            assert!(out.stderr.contains(&refused), "only {irreversible:?} are refused: {out}");
            for (step, why) in irreversible {
                let named = format!("{}/{step}: {why} (on ", self.recipe);
                assert!(out.stderr.contains(&named), "{named:?}: {out}");
                let plan = marked.get(step);
                assert!(plan.is_none_or(|plan| plan == why), "the plan says {plan:?}, the undo {why:?}");
            }
            let rest = undo(&["--partial"]);
            assert!(rest.code == 0 || rest.stderr.contains("no change of run"), "an undo of the rest: {rest}");
            return;
        }
        expect(&out, 0, "the undo");
        for words in self.proof.remains.values() {
            assert!(out.stderr.contains(words) || out.stdout.contains(words), "{words:?}: {out}");
        }
        for (node, before) in self.nodes.iter().zip(&before) {
            let after = node.must(SNAPSHOT);
            let differing = differing_lines(before, &after);
            let left = |line: &&String| !self.proof.remains.keys().any(|part| line.contains(part.as_str()));
            let differing: Vec<_> = differing.iter().filter(left).collect();
            assert!(differing.is_empty(), "{} is not as before: {differing:#?} {out}", node.name);
        }
        self.must(&self.proof.after_undo);
    }

    /// Returns the steps of the recipe that a plan marks as irreversible, with its reasons.
    fn marked(&self, document: &serde_json::Value) -> BTreeMap<String, String> {
        let hosts = document["plan"]["hosts"].as_array().expect("a list").iter();
        let steps = hosts.flat_map(|host| host["steps"].as_array().expect("a list"));
        let steps = steps.filter(|step| step["id"]["recipe"] == self.recipe);
        steps
            .filter_map(|step| {
                let name = step["id"]["step"].as_str().expect("a name").to_owned();
                Some((name, step["irreversible"].as_str()?.to_owned()))
            })
            .collect()
    }

    fn converges(&self) {
        self.proof.equip(self.nodes, self.system);
        // Elsewhere the applies themselves show that something, and then nothing, is to be changed.
        let asked = Distribution::wanted().is_some() || ClaimedDistribution::wanted().is_some();
        let plans = asked || self.is_first_system() || !self.proof.runs_on_debian_12();
        match self.proof.undone && self.proof.recipe.is_some() && self.is_first_system() {
            true => self.undoes(),
            false if plans => drop(self.due("before the first apply")),
            false => {}
        }
        let first = self.apply("the first apply");
        assert!(plans || !first.stdout.contains("no changes:"), "the first apply: {first}");
        self.must(&self.proof.holds);
        self.settled("the second apply");
        if plans {
            self.plan(0, "after the second apply");
        }
        expect(&self.project.forge(["verify", "inventory.yaml"]), 0, "verify");
    }

    fn is_first_system(&self) -> bool {
        self.system == ProofSystem::Release(Distribution::Debian12)
    }

    fn repairs(&self, tamper: &Tamper) {
        let node = &self.nodes[0];
        node.must(&tamper.r#do);
        let found = self.detects(tamper);
        let mut steps: Vec<&str> = tamper.follows.iter().chain([&tamper.step]).map(String::as_str).collect();
        steps.sort_unstable();
        assert_eq!(self.changing(&found), steps, "{}: {found}", tamper.r#do);
        expect(&self.project.forge(["apply", REPAIR, "--yes"]), 0, &tamper.r#do);
        node.must(&tamper.holds);
        expect(&self.project.forge(["drift", "inventory.yaml"]), 0, &tamper.r#do);
    }

    /// Checks that drift names a change, and that nothing is reported once it is taken back.
    fn finds(&self, fault: &FoundFault) {
        let node = &self.nodes[0];
        node.must(&fault.r#do);
        let drift = self.project.forge(["drift", "inventory.yaml", "--format", "json"]);
        let report: serde_json::Value = serde_json::from_str(&drift.stdout).unwrap_or_else(|_| panic!("{drift}"));
        let findings = report["drift"]["findings"].as_array().expect("findings");
        let named: Vec<&str> = findings.iter().filter_map(|finding| finding["step"].as_str()).collect();
        assert_eq!((drift.code, named), (2, vec![fault.verification.as_str()]), "{}: {drift}", fault.r#do);
        node.must(&fault.ends);
        expect(&self.project.forge(["drift", "inventory.yaml"]), 0, &fault.ends);
    }

    /// Checks that a change of another program is not reported and stays.
    fn leaves(&self, foreign: &ForeignChange) {
        let node = &self.nodes[0];
        node.must(&foreign.r#do);
        node.must(&foreign.holds);
        self.plan(0, &foreign.r#do);
        expect(&self.project.forge(["drift", "inventory.yaml"]), 0, &foreign.r#do);
        self.settled(&foreign.r#do);
        node.must(&foreign.holds);
    }

    /// Checks that drift finds the change, attributes it to the machine (because the declaration was applied), and saves
    /// the repair plan. Returns that plan.
    fn detects(&self, tamper: &Tamper) -> serde_json::Value {
        let out = self.project.forge(["drift", "inventory.yaml", "--format", "json", "--plan-out", REPAIR]);
        expect(&out, 2, &tamper.r#do);
        let document = parsed(&out);
        let findings = document["drift"]["findings"].as_array().expect("a list").iter();
        let own = findings.filter(|found| {
            found["aspect"] == "step"
                && found["step"].as_str().and_then(|step| step.split('[').next()) == Some(&tamper.step)
        });
        let causes: Vec<_> = own.map(|found| found["cause"].as_str().unwrap_or_default()).collect();
        let moved = |cause: &&str| matches!(*cause, "machine-changed" | "pending");
        assert!(!causes.is_empty() && causes.iter().all(moved), "{}: {causes:?} {out}", tamper.r#do);
        let plan = fs_err::read_to_string(self.project.path(REPAIR)).expect("the repair plan");
        serde_json::from_str(&plan).expect("a saved plan")
    }

    fn removes(self, removed: &str) {
        let trial = Trial { project: self.project.inventory(&inventory(self.recipe, self.proof, true)), ..self };
        trial.apply("the removal");
        trial.must(removed);
        trial.settled("the second removal");
    }
}

fn inventory(recipe: &str, proof: &Proof, absent: bool) -> String {
    let beside = proof.beside.iter().map(|(name, with)| entry(name, with, false));
    let entries: String = std::iter::once(entry(recipe, &proof.with, absent)).chain(beside).collect();
    let rollout = if proof.reboots { "rollout: { reboot: allow }\n" } else { "" };
    format!("{rollout}apply:\n{entries}")
}

/// Replaces each `sha256 of PATH` by the digest of that file of a node.
fn fill_digests(text: &str, node: &Node) -> String {
    const MARK: &str = "sha256 of ";
    let mut parts = text.split(MARK);
    let mut filled = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        let (path, rest) = part.split_once('"').expect("JSON");
        let digest = node.must(&format!("sha256sum {path}"));
        filled += &format!("{}\"{rest}", digest.split(' ').next().unwrap_or_default());
    }
    filled
}

fn entry(recipe: &str, with: &Parameters, absent: bool) -> String {
    let ensure = if absent { ", ensure: absent" } else { "" };
    // JSON is YAML.
    let with = if with.is_empty() { String::new() } else { format!(", with: {}", serde_json::json!(with)) };
    format!("  - {{ recipe: {recipe}, on: all{with}{ensure} }}\n")
}

/// Returns the tampers of a run: all of them on Debian 12 and on a system that was asked for. The other systems share most
/// of their programs with it: there, only the first tamper runs.
fn tampers(proof: &Proof, system: ProofSystem) -> &[Tamper] {
    let all = Distribution::wanted().is_some() || ClaimedDistribution::wanted().is_some();
    if all || system == ProofSystem::Release(Distribution::Debian12) { &proof.tampers } else { &proof.tampers[..1] }
}

/// Carries out one proof on hosts of a system.
pub fn prove(name: &str, proof: &Proof, system: ProofSystem, nodes: &[Node]) {
    let recipe = proof.recipe_name(name);
    // All nodes share the kernel's clock: a chronyd that starts on one marks it as unsynchronized for the others.
    static CLOCK: Mutex<()> = Mutex::new(());
    let _alone = (recipe == "time-sync").then(|| CLOCK.lock().unwrap_or_else(PoisonError::into_inner));
    let project = proof.build_project(name, nodes);
    let trial = Trial { proof, recipe, system, project, nodes };
    trial.converges();
    for foreign in &proof.foreign {
        trial.leaves(foreign);
    }
    for fault in proof.faults.iter().filter(|_| trial.is_first_system()) {
        trial.finds(fault);
    }
    for tamper in tampers(proof, system) {
        trial.repairs(tamper);
    }
    if let Some(removed) = &proof.removed {
        trial.removes(removed);
    }
}

/// Returns the proof files of a folder, sorted by name.
pub fn proofs(folder: &str, only: Option<&str>) -> Vec<(String, PathBuf)> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fleet").join(folder);
    let paths = fs_err::read_dir(folder).expect("the folder").map(|entry| entry.expect("an entry").path());
    let named = paths.filter(|path| path.extension().is_some_and(|end| end == "yaml"));
    let mut files: Vec<_> =
        named.map(|path| (path.file_stem().unwrap().to_string_lossy().into_owned(), path)).collect();
    files.retain(|(name, _)| only.is_none_or(|only| only == name));
    files.sort();
    files
}

/// Reads one proof file.
pub fn read_proof(path: &Path) -> Proof {
    let text = fs_err::read_to_string(path).expect("the file");
    serde_saphyr::from_str(&text).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}
