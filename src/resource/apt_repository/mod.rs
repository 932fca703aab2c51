//! `apt_repository`: a source of apt with its key, and the index of what it offers.

mod act;
mod judge;
mod lists;
mod openpgp;

use super::body::{Body, Target};
use super::lock;
use super::support::{bad_value, required, ticked};
use super::{Action, Context, Field, Fields, Judgement, Kind, Provision, Resource, Type};
use crate::diag::{Code, Diag};
use crate::model::{SecretStore, Value};
use crate::probe::{Observation, Probe};
use serde_json::json;

pub(super) const KIND: Kind = Kind {
    name: "apt_repository",
    summary: "A repository of apt with its key, and its index.",
    example: include_str!("../examples/apt_repository.yaml"),
    doc: "\
Writes `/etc/apt/sources.list.d/NAME.sources` and the key that it is signed by, `/etc/apt/keyrings/NAME.asc` (or `.gpg`,
when the key is not armored). The key is `key`, a file of the inventory's tree, `key_text`, or `key_path`, a key that
is on the host already.

**Compared** are both files with owner and mode, and whether apt has an index of every suite that is not older than them.
Nothing to do reads `the source, its key and its index are as declared`.

**`fingerprint`** pins the key: the key file must hold exactly the named keys. For `key` and `key_text` that is
compared when the inventory is read; a key on the host that is another one blocks the step.

**A change** tries the new source and key first, beside the live ones, with an `apt-get update` of this source alone.
Only if that succeeds they go live, so that a wrong key or URI never breaks apt for everything else. A later `package`
step of the same run sees the new index.

**Another file that declares the same URI and suite** blocks the step and is named: apt refuses to work at all where
two entries disagree on the key.

**`trusted: true`** leaves signatures unchecked: whoever answers for the URI installs what they like. It is meant for
`file:` URIs; a repository without it needs a key. Credentials belong into `/etc/apt/auth.conf.d`.

**Removal** takes the source and its key, and leaves installed packages.",
    fields: FIELDS,
    build,
};

const FIELDS: &[Field] = &[
    Field::required("name", Type::Name, "Names the files: letters, digits, `.`, `_` and `-`."),
    Field::optional("uris", Type::List(&Type::Line), "Where it is: `https://host/path`, `file:/path`. Required."),
    Field::optional("suites", Type::List(&Type::Line), "Suites, or exact paths with a `/` at the end. Required."),
    Field::optional("components", Type::List(&Type::Line), "Components; none where suites are exact paths."),
    Field::optional("architectures", Type::List(&Type::Name), "Architectures; the host's own when left out."),
    Field::optional("types", Type::List(&Type::Enum(&["deb", "deb-src"])), "What is fetched. Default `[deb]`."),
    Field::optional("key", Type::LocalFile, "The key: a file of the inventory's tree. Excludes the other two."),
    Field::optional("key_text", Type::Text, "The key as armored text."),
    Field::optional("key_path", Type::Path, "A key that is on the host."),
    Field::optional("fingerprint", Type::Line, "Fingerprints of the primary keys, in full, separated by commas."),
    Field::optional("trusted", Type::Bool, "Whether signatures are left unchecked. Default `false`."),
    lock::FIELD,
];

#[derive(Debug)]
struct Repository {
    name: String,
    what: What,
    sources: Target,
    /// The key that forge writes.
    keyring: Option<Target>,
    /// The key that is on the host.
    key_path: Option<String>,
    fingerprints: Option<Vec<String>>,
    lock_timeout: u64,
    absent: bool,
}

/// What the source says, without its key.
#[derive(Debug, Default)]
struct What {
    uris: Vec<String>,
    suites: Vec<String>,
    components: Vec<String>,
    architectures: Vec<String>,
    types: Vec<String>,
    trusted: bool,
}

fn build(fields: &Fields, absent: bool) -> Result<Box<dyn Resource>, Diag> {
    let name = required(fields, "name")?.to_owned();
    if !name.bytes().all(|b| b.is_ascii_alphanumeric() || b"._-".contains(&b)) {
        return Err(bad_value(format!("`{name}` cannot name a source: apt would not read its file"))
            .hint("letters, digits, `.`, `_` and `-`"));
    }
    let (keyring, key_path) = keys(fields, &name)?;
    let what = if absent { What::default() } else { what(fields)? };
    let signed_by = keyring.as_ref().map(|key| key.path.clone()).or(key_path.clone());
    if !absent {
        one_trust(what.trusted, signed_by.is_some())?;
    }
    let fingerprints = fields.text("fingerprint").map(pinned).transpose()?;
    if let (Some(key), Some(pinned)) = (&keyring, &fingerprints) {
        check_pinned(key.body.bytes(), pinned)
            .map_err(|why| bad_value(format!("the key is not the pinned one: {why}")))?;
    }
    if fingerprints.is_some() && signed_by.is_none() && !absent {
        return Err(bad_value("`fingerprint` needs a key"));
    }
    let sources = target(format!("/etc/apt/sources.list.d/{name}.sources"), what.body(signed_by.as_deref()));
    Ok(Box::new(Repository {
        name,
        what,
        sources,
        keyring,
        key_path,
        fingerprints,
        lock_timeout: lock::timeout(fields),
        absent,
    }))
}

fn target(path: String, body: impl Into<Vec<u8>>) -> Target {
    Target { path, body: Body::new(body), owner: "root".to_owned(), group: "root".to_owned(), mode: 0o644 }
}

fn one_trust(trusted: bool, key: bool) -> Result<(), Diag> {
    match (trusted, key) {
        (true, true) => Err(Diag::error(Code::Exclusive, "`trusted` and a key exclude each other")),
        (false, false) => Err(Diag::error(Code::MissingKey, "a repository needs `key`, `key_text` or `key_path`")
            .hint("`trusted: true` leaves signatures unchecked")),
        _ => Ok(()),
    }
}

/// Returns the key to write, or the path of one that is there.
fn keys(fields: &Fields, name: &str) -> Result<(Option<Target>, Option<String>), Diag> {
    const KEYS: [&str; 3] = ["key", "key_text", "key_path"];
    let given: Vec<&str> = KEYS.into_iter().filter(|field| fields.has(field)).collect();
    let field = match given.as_slice() {
        [] => return Ok((None, None)),
        ["key_path"] => return Ok((None, fields.text("key_path").map(str::to_owned))),
        [one] => *one,
        more => return Err(Diag::error(Code::Exclusive, format!("{} exclude each other", ticked(more)))),
    };
    let body = Body::from_value(field, &fields.0[field])?;
    openpgp::fingerprints(body.bytes()).map_err(|why| bad_value(format!("`{field}` is not a key: {}", why.words())))?;
    let ends = if openpgp::is_armored(body.bytes()) { "asc" } else { "gpg" };
    Ok((Some(target(format!("/etc/apt/keyrings/{name}.{ends}"), body.bytes())), None))
}

fn what(fields: &Fields) -> Result<What, Diag> {
    let list = |name: &str| fields.texts(name).unwrap_or_default();
    let types = fields.texts("types").unwrap_or_else(|| vec!["deb".to_owned()]);
    let (uris, suites, components) = (list("uris"), list("suites"), list("components"));
    for (field, words) in [("uris", &uris), ("suites", &suites), ("types", &types)] {
        if words.is_empty() {
            return Err(Diag::error(Code::MissingKey, format!("a repository needs `{field}`")));
        }
    }
    let fields_of = [("uris", &uris), ("suites", &suites), ("components", &components)];
    for (field, word) in fields_of.iter().flat_map(|(field, words)| words.iter().map(move |word| (field, word))) {
        plain_word(field, word)?;
    }
    uris.iter().try_for_each(|uri| check_uri(uri))?;
    match (suites.iter().all(|suite| suite.ends_with('/')), components.is_empty()) {
        (true, false) => Err(bad_value("a suite that ends with `/` is an exact path and has no components")),
        (false, true) => Err(Diag::error(Code::MissingKey, "a repository needs `components`")
            .hint("an exact path is a suite that ends with `/`: `suites: [\"./\"]`")),
        _ => Ok(What {
            uris,
            suites,
            components,
            architectures: list("architectures"),
            types,
            trusted: fields.bool("trusted").unwrap_or(false),
        }),
    }
}

fn plain_word(field: &str, word: &str) -> Result<(), Diag> {
    if SecretStore::mentions(word) {
        return Err(bad_value(format!("`{field}` holds a secret, and everybody on the host reads it"))
            .hint("write it into a file of /etc/apt/auth.conf.d with a `file` step"));
    }
    match word.is_empty() || word.contains(char::is_whitespace) || word.contains("$(") {
        true => Err(bad_value(format!("`{word}` is not one of `{field}`")).hint("without blanks and variables of apt")),
        false => Ok(()),
    }
}

fn check_uri(uri: &str) -> Result<(), Diag> {
    let rest = uri.split_once(':').filter(|(scheme, _)| !scheme.is_empty()).map(|(_, rest)| rest);
    let Some(rest) = rest else { return Err(bad_value(format!("`{uri}` is not a URI"))) };
    let host = rest.strip_prefix("//").and_then(|rest| rest.split('/').next()).unwrap_or_default();
    match host.contains('@') {
        true => Err(bad_value("`uris` holds an account, and everybody on the host reads it")
            .hint("write it into a file of /etc/apt/auth.conf.d with a `file` step")),
        false => Ok(()),
    }
}

/// Reads declared fingerprints: full ones, blanks within them as `gpg` prints them.
fn pinned(text: &str) -> Result<Vec<String>, Diag> {
    let one = |part: &str| {
        let bare: String = part.chars().filter(|c| !c.is_whitespace()).collect::<String>().to_ascii_uppercase();
        match matches!(bare.len(), 40 | 64) && bare.bytes().all(|b| b.is_ascii_hexdigit()) {
            true => Ok(bare),
            false => Err(bad_value(format!("`{}` is not a fingerprint", part.trim()))
                .hint("40 hex digits, as `gpg --show-keys` prints them")),
        }
    };
    let mut prints = text.split(',').map(one).collect::<Result<Vec<_>, _>>()?;
    prints.sort();
    prints.dedup();
    Ok(prints)
}

/// A key beside the pinned ones would be trusted too, so the file holds exactly those.
fn check_pinned(key: &[u8], pinned: &[String]) -> Result<(), String> {
    let found = openpgp::fingerprints(key).map_err(|why| why.words())?;
    match found == pinned {
        true => Ok(()),
        false => Err(format!("it holds {}, pinned is {}", found.join(" and "), pinned.join(" and "))),
    }
}

impl What {
    /// Returns the text of the source.
    fn body(&self, signed_by: Option<&str>) -> String {
        let mut text = "# Written by forge.\n".to_owned();
        let mut line = |field: &str, words: &[String]| {
            if !words.is_empty() {
                text.push_str(&format!("{field}: {}\n", words.join(" ")));
            }
        };
        line("Types", &self.types);
        line("URIs", &self.uris);
        line("Suites", &self.suites);
        line("Components", &self.components);
        line("Architectures", &self.architectures);
        line("Signed-By", signed_by.map(str::to_owned).as_slice());
        line("Trusted", self.trusted.then(|| "yes".to_owned()).as_slice());
        text
    }
}

impl Repository {
    fn signed_by(&self) -> Option<&str> {
        self.keyring.as_ref().map(|key| key.path.as_str()).or(self.key_path.as_deref())
    }

    /// What a removal takes: the key may be of either form.
    fn leftovers(&self) -> Vec<Target> {
        let keys = ["asc", "gpg"].map(|ends| target(format!("/etc/apt/keyrings/{}.{ends}", self.name), ""));
        let mut all = vec![target(self.sources.path.clone(), "")];
        all.extend(keys);
        all
    }

    fn key_probe(&self) -> Option<Probe> {
        self.key_path.as_ref().map(|path| Probe::Key { path: path.clone() })
    }
}

impl Resource for Repository {
    fn kind(&self) -> &'static str {
        KIND.name
    }

    fn title(&self) -> String {
        self.name.clone()
    }

    fn probes(&self) -> Vec<Probe> {
        if self.absent {
            return self.leftovers().iter().map(|target| super::body::bare(&target.path)).collect();
        }
        let mut probes = vec![self.sources.probe(), Probe::AptSources];
        probes.extend(self.keyring.as_ref().map(Target::probe));
        probes.extend(self.key_probe());
        probes.extend(lists::indexes(&self.what).into_iter().flatten().map(|path| super::body::bare(&path)));
        probes
    }

    fn judge(&self, seen: &Observation, cx: &Context<'_>) -> Judgement {
        match self.absent {
            true => judge::removal(self, seen),
            false => judge::presence(self, seen, cx),
        }
        .unwrap_or_else(|unknown| Judgement::unknown(&unknown))
    }

    fn act(&self, _judgement: &Judgement, _cx: &Context<'_>) -> Action {
        Action { body: act::action(self), long: true, explain: act::EXPLAIN }
    }

    fn desired(&self) -> Value {
        match self.absent {
            true => json!({ "name": self.name, "absent": true }),
            false => json!({
                "name": self.name,
                "sources": self.sources.desired(),
                "key": self.keyring.as_ref().map(Target::desired),
                "fingerprints": self.fingerprints,
            }),
        }
    }

    fn provides(&self) -> Vec<Provision> {
        match self.absent {
            true => Vec::new(),
            false => self.inputs().into_iter().map(Provision::Path).collect(),
        }
    }

    fn inputs(&self) -> Vec<String> {
        [Some(&self.sources), self.keyring.as_ref()].into_iter().flatten().map(|target| target.path.clone()).collect()
    }

    fn claims(&self) -> Vec<(&'static str, String)> {
        self.inputs().into_iter().map(|path| ("path", path)).collect()
    }
}

#[cfg(test)]
mod tests;
