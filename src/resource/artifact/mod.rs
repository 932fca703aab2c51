//! `artifact`: a large file by its digest, brought to the host by the controller or by the host itself.

pub(super) mod content;
mod judge;
mod script;

use super::body::bare;
use super::support::{GROUP, OWNER, bad_value, file_path, octal, owner_and_group};
use super::{Action, Context, Delivery, Field, Fields, Judgement, Kind, Provision, Resource, Type, body};
use crate::artifact::{Address, Artifact as Source, Login, Sha256, Source as From};
use crate::diag::{Code, Diag};
use crate::model::{SecretStore, Value};
use crate::probe::{Observation, Probe};
use serde_json::json;

pub(super) const KIND: Kind = Kind {
    name: "artifact",
    summary: "A large file by its SHA-256, sent by the controller or fetched by the host.",
    example: include_str!("../examples/artifact.yaml"),
    doc: "\
For installers, drivers and archives that are too large for a `file`. The artifact comes from `url` (http or https) or
is `file`, a file of the inventory's tree of any size. **`sha256` is mandatory**, in the step or in the lock file beside
the inventory, which `forge fetch --lock` writes: without a digest nothing is contacted.

**`via: controller`** (the default): forge fetches the artifact once into its cache, however many hosts need it, and sends
it over the open session. A download whose connection breaks goes on where it stopped, in this run or the next, and so
does the way to the host. `forge fetch` fills the cache beforehand; with `--offline` anything that is not there is an
error. **`via: host`**: the host fetches it with its own `curl`, as a long step that outlives the session; with `--offline`
the controller sends it from its cache instead.

**Compared** are type, SHA-256, owner, group and mode. The file is read as a whole only if its size, inode or a time of it is
another than when forge put it there (noted in `/var/lib/forge/artifacts`), so that plans stay quick; in a directory that others
can write to it is always read. Nothing to do reads
`content, owner and mode are as declared`.

**A change** writes into a directory beside the target that only root may enter, compares the SHA-256 of what is there **on the host**, and
only then gives it its owner and mode and renames it over the target: nothing is ever used that has another digest. A redirect that leaves https
is refused, and credentials are never shown to another origin than that of `url`. They are given as secrets, and reach
neither the command line of a program nor a log. The old file is not kept: it can be fetched again.

**The directory** above must exist, or an earlier step must make it. An artifact that cannot be had ends forge with code 69;
where it is known before, no host is touched.

**Removal** removes the file.",
    fields: FIELDS,
    build,
};

const FIELDS: &[Field] = &[
    Field::required("path", Type::Path, "Where the file stands on the host."),
    Field::optional("url", Type::Line, "Where it is fetched from, `https://…` or `http://…`. Excludes `file`."),
    Field::optional("file", Type::LocalPath, "A file of the inventory's tree, of any size. Excludes `url`."),
    Field::optional(
        "sha256",
        Type::Line,
        "SHA-256 of the file, 64 hex digits. Without it the lock file beside the inventory must have it.",
    ),
    Field::optional(
        "via",
        Type::Enum(&["controller", "host"]),
        "Who fetches `url`: the controller, which sends it on, or the host. Default `controller`.",
    ),
    Field::optional("user", Type::Line, "Who asks the server; needs `password`."),
    Field::optional("password", Type::Secret, "The password of `user`."),
    Field::optional("token", Type::Secret, "A bearer token for the server. Excludes `user` and `password`."),
    OWNER,
    GROUP,
    Field::optional("mode", Type::Mode, "Permission bits. Default `\"0644\"`."),
];

/// The file that is wanted.
#[derive(Debug)]
struct Artifact {
    path: String,
    /// `None` for one that is to be gone.
    source: Option<Source>,
    owner: String,
    group: String,
    mode: u32,
}

fn build(fields: &Fields, absent: bool) -> Result<Box<dyn Resource>, Diag> {
    let path = file_path(fields)?;
    let (owner, group) = owner_and_group(fields)?;
    Ok(Box::new(Artifact {
        path,
        source: (!absent).then(|| source(fields)).transpose()?,
        owner,
        group,
        mode: fields.mode("mode").unwrap_or(0o644),
    }))
}

fn source(fields: &Fields) -> Result<Source, Diag> {
    let login = login(fields)?;
    let from = match (fields.text("url"), fields.text("file")) {
        (Some(_), Some(_)) => {
            return Err(Diag::error(Code::Exclusive, "`url` and `file` exclude each other").about("file"));
        }
        (None, None) => return Err(Diag::error(Code::MissingKey, "an artifact needs `url` or `file`")),
        (Some(url), None) => From::Url { address: address(url)?, login },
        (None, Some(_)) if login != Login::None => {
            return Err(Diag::error(Code::Exclusive, "a `file` is read by forge itself: nobody is asked for it")
                .hint("leave `user`, `password` and `token` out"));
        }
        (None, Some(file)) => From::File(file.into()),
    };
    let by_host = fields.text("via") == Some("host");
    if by_host && matches!(from, From::File(_)) {
        return Err(Diag::error(Code::Exclusive, "a `file` lies on the controller: the host cannot fetch it")
            .hint("leave `via` out"));
    }
    Ok(Source { source: from, sha256: digest(fields)?, by_host })
}

fn address(url: &str) -> Result<Address, Diag> {
    if SecretStore::mentions(url) {
        return Err(bad_value("a secret cannot stand in `url`: addresses are shown")
            .about("url")
            .hint("give it as `token`, or as `user` and `password`"));
    }
    Address::parse(url).map_err(|why| {
        bad_value(format!("`url` {why}")).about("url").hint("write it as `https://mirror.example/x.run`")
    })
}

fn login(fields: &Fields) -> Result<Login, Diag> {
    match (fields.text("user"), fields.text("password"), fields.text("token")) {
        (None, None, None) => Ok(Login::None),
        (Some(user), Some(_), None) if user.contains(':') => {
            Err(bad_value("`user` holds a `:`, which separates user and password"))
        }
        (Some(user), Some(password), None) => Ok(Login::Basic { user: user.to_owned(), password: password.to_owned() }),
        (None, None, Some(token)) => Ok(Login::Bearer { token: token.to_owned() }),
        (_, _, Some(_)) => Err(Diag::error(Code::Exclusive, "`token` excludes `user` and `password`")),
        (_, _, None) => Err(Diag::error(Code::MissingKey, "`user` and `password` belong together")),
    }
}

/// What to do where a digest is missing.
const NO_DIGEST: &str = "copy it from the publisher; `forge fetch` computes it and prints the line to paste, \
                         and `forge fetch --lock` writes it to the lock file of the inventory";

fn digest(fields: &Fields) -> Result<Sha256, Diag> {
    let Some(text) = fields.text("sha256") else {
        let source = if fields.has("url") { "url" } else { "file" };
        return Err(Diag::error(Code::MissingKey, "an artifact needs its `sha256`").about(source).hint(NO_DIGEST));
    };
    Sha256::parse(text).ok_or_else(|| bad_value("`sha256` is not 64 hexadecimal digits").about("sha256"))
}

impl Resource for Artifact {
    fn kind(&self) -> &'static str {
        KIND.name
    }

    fn title(&self) -> String {
        self.path.clone()
    }

    fn probes(&self) -> Vec<Probe> {
        let mut probes = vec![content::probe(&self.path, true), body::lead(&self.path)];
        if self.source.is_some() {
            probes.extend(super::support::parent(&self.path).map(bare));
        }
        probes
    }

    fn judge(&self, seen: &Observation, cx: &Context<'_>) -> Judgement {
        let judged = body::not_barred(seen, &self.path).and_then(|()| match &self.source {
            Some(source) => self.judge_present(source, seen, cx),
            None => self.judge_absent(seen),
        });
        judged.unwrap_or_else(|unknown| Judgement::unknown(&unknown))
    }

    fn act(&self, judgement: &Judgement, cx: &Context<'_>) -> Action {
        let ownership = body::only_ownership(&judgement.changes);
        let body = match &self.source {
            None => self.remove(cx.run),
            Some(source) if ownership => self.give(source, cx.run),
            Some(source) if source.by_host => self.fetch(source),
            Some(source) => self.receive(source),
        };
        let long = self.source.as_ref().is_some_and(|source| source.by_host) && !ownership;
        Action { body, long, explain: script::EXPLAIN }
    }

    fn meaning(&self, status: i32) -> Option<&str> {
        (status == script::LACKING).then_some("the artifact cannot be had, or is not what is declared")
    }

    fn artifact(&self) -> Option<&Source> {
        self.source.as_ref()
    }

    fn delivery(&self, judgement: &Judgement) -> Option<Delivery> {
        let source = self.source.as_ref().filter(|_| !body::only_ownership(&judgement.changes))?;
        Some(Delivery { artifact: source.clone(), part: self.part(source), body: self.receive(source) })
    }

    fn desired(&self) -> Value {
        match &self.source {
            None => json!({ "path": self.path, "absent": true }),
            Some(source) => json!({
                "path": self.path, "sha256": source.sha256.as_str(),
                "owner": self.owner, "group": self.group, "mode": octal(self.mode),
            }),
        }
    }

    fn provides(&self) -> Vec<Provision> {
        self.source.as_ref().map(|_| Provision::Path(self.path.clone())).into_iter().collect()
    }

    /// The note is written anew whenever the file is, and is quickly read.
    fn inputs(&self) -> Vec<String> {
        vec![content::note(&self.path)]
    }

    fn claims(&self) -> Vec<(&'static str, String)> {
        vec![("path", self.path.clone())]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const DIGEST: &str = "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855";

    fn refused(entries: &[(&'static str, &str)]) -> String {
        let fields = [("path", "/opt/x.run")].iter().chain(entries).map(|(key, value)| (*key, json!(value)));
        build(&Fields(fields.collect()), false).unwrap_err().message
    }

    #[test]
    fn an_artifact_has_one_source_and_its_digest() {
        let url = ("url", "https://mirror.example/x.run");
        assert_eq!(refused(&[]), "an artifact needs `url` or `file`");
        assert_eq!(refused(&[url, ("file", "/srv/x.run")]), "`url` and `file` exclude each other");
        assert_eq!(refused(&[url]), "an artifact needs its `sha256`");
        assert_eq!(refused(&[url, ("sha256", "abc")]), "`sha256` is not 64 hexadecimal digits");
        let file = ("file", "/srv/x.run");
        assert_eq!(
            refused(&[file, ("sha256", DIGEST), ("via", "host")]),
            "a `file` lies on the controller: the host cannot fetch it"
        );
        assert_eq!(refused(&[("url", "ftp://h/x"), ("sha256", DIGEST)]), "`url` is neither http nor https");
    }

    #[test]
    fn credentials_are_whole_and_stand_in_no_address() {
        let url = ("url", "https://mirror.example/x.run");
        assert_eq!(refused(&[url, ("user", "me")]), "`user` and `password` belong together");
        assert_eq!(refused(&[url, ("token", "t"), ("user", "me")]), "`token` excludes `user` and `password`");
        assert_eq!(
            refused(&[("url", "https://me:secret@h/x"), ("sha256", DIGEST)]),
            "`url` holds credentials, which would be shown"
        );
        let mut secrets = SecretStore::default();
        let token = secrets.insert("TOKEN", "x".to_owned().into()).0;
        assert_eq!(
            refused(&[("url", &format!("https://h/x?t={token}"))]),
            "a secret cannot stand in `url`: addresses are shown"
        );
        assert_eq!(
            refused(&[("file", "/srv/x"), ("token", &token)]),
            "a `file` is read by forge itself: nobody is asked for it"
        );
    }
}
