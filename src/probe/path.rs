//! Paths: one `stat`, one `sha256sum`, and the bodies of files that differ from the wanted ones. A path that leads
//! through a link that users other than root can replace is not read.
//!
//! A user who can write to a directory can replace a file in it with a link to `/etc/shadow` or with a pipe, between
//! any check of the name and its use. So one more `stat` checks who may place entries in the directories above: only
//! files that nobody but root, or the account that this runs as, can replace are read by name. Each of the others is
//! read separately from its directory, after entering it. A hard link would be such a file too:
//! `fs.protected_hardlinks`, on by default wherever forge runs, prevents hard links to a file that their creator may
//! not write.

use super::query::{BODY_CAP, Probe};
use super::section::{NulFields, ProbeSection, SectionOutput, parse_utf8};
use super::{Observation, PathInfo, PathState, PathType, ProbeReading, UnansweredReason};
use crate::model::UntrustedText;
use crate::script::{ShellFragment, safe_path};
use base64::Engine as _;
use hashbrown::DefaultHashBuilder;
use std::collections::{BTreeMap, BTreeSet, HashMap};

/// Bytes of quoted names per section: the kernel accepts 131,072 as one argument.
const NAMES_CAP: usize = 60_000;

/// Prints fields that end with NUL: `barred`, a link and why it is not followed; ten per path that exists; `errors` and
/// `stat`'s output about the others; `dangling`, a link that leads to nothing; `sum`, a path and the digest of a file that
/// was read separately; `sums` and the output of `sha256sum`; `body`, the number of the want, base64.
///
/// `forge_leads` sets lists of directories, each between line breaks: those in `bars` are not read, in those in `weak`
/// other users can replace entries, in those in `sticky` entries that are not root's. Directories precede their
/// entries. A missing directory may appear later.
pub(super) const SNIPPET: &str = r#"need stat; need sha256sum; need base64; need head
NL='
'
bars=$NL weak=$NL sticky=$NL late=
fail() { exit 1; }
barred() { printf %s "$*"; exit 9; }
forge_count() { count=$#; }
forge_leads() {
n=$#
for d; do if [ -e "$d" ] || [ -L "$d" ]; then set -- "$@" "$d"; else weak=$weak$d$NL; fi; done
shift "$n"
[ "$#" != 0 ] || return 0
rows=$(stat -c '%u %f' -- /proc/self/ "$@" 2>/dev/null)
forge_count $rows
torn=
[ "$count" = $((2 * $# + 2)) ] || torn=yes
me=${rows%% *}
for d; do
rows=${rows#*"$NL"}
row=${rows%%"$NL"*}
# A directory vanished: nothing is known of which, and none counts as root's.
if [ -n "$torn" ]; then me= row='- 41ff'; [ ! -L "$d" ] || row='- a1ff'; fi
case $bars in *"$NL${d%/*}$NL"*) bars=$bars$d$NL; continue ;; esac
case $weak in *"$NL${d%/*}$NL"*) open=all ;; *)
case $sticky in *"$NL${d%/*}$NL"*) open=sticky ;; *) open= ;; esac ;; esac
if ! fixed "${row% *}"; then w=all; else above "${row% *}" "${row#* }"; w=$open; fi
if [ $((0x${row#* } & 0xf000)) -eq 40960 ]; then
w=$(enter "$d" && printf %s "$foreign$shared")
case $? in
0) ;;
9) printf 'barred\0%s\0%s\0' "$d" "$w"; bars=$bars$d$NL; continue ;;
*) w=all ;;
esac
fi
case $w in '') ;; sticky) sticky=$sticky$d$NL ;; *) weak=$weak$d$NL ;; esac
done
}
forge_is_barred() { case $bars in *"$NL${1%/*}$NL"*) return 0 ;; esac; return 1; }
forge_is_weak() { case $weak$sticky in *"$NL${1%/*}$NL"*) return 0 ;; esac; return 1; }
forge_stat() {
if [ "$bars" != "$NL" ]; then
n=$#
for f; do forge_is_barred "$f" || set -- "$@" "$f"; done
shift "$n"
fi
e=
[ "$#" = 0 ] || { e=$(QUOTING_STYLE=literal stat --printf='%f\0%s\0%.9Y\0%.9Z\0%U\0%G\0%u\0%g\0%n\0%N\0' -- "$@" 2>&1 >&3); } 3>&1
printf 'errors\0%s\0' "$e"
n=$# sums=
for f; do
[ ! -L "$f" ] || [ -e "$f" ] || printf 'dangling\0%s\0' "$f"
[ -f "$f" ] && [ ! -L "$f" ] || continue
if forge_is_weak "$f"; then
s=$(forge_read "$f") || [ "$?" != 124 ] || late=yes
[ -z "$s" ] || { printf 'sum\0%s\0%s\0' "$f" "$s"; sums="$sums$NL$s  $f"; }
else set -- "$@" "$f"; fi
done
shift "$n"
s=
[ "$#" = 0 ] || s=$(sha256sum -- "$@")
printf 'sums\0%s\0' "$s"
s=$s$sums
}
forge_bodies() {
i=0
while [ "$#" -gt 1 ]; do
if [ -f "$2" ] && [ ! -L "$2" ] && ! forge_is_barred "$2"; then
case "$NL$s$NL" in
*"$NL$1  $2$NL"*) ;;
*) if forge_is_weak "$2"; then forge_read "$2" "$i" || [ "$?" != 124 ] || late=yes
else printf 'body\0%s\0' "$i"; head -c 65537 -- "$2" | base64 -w0; printf '\0'; fi ;;
esac
fi
i=$((i + 1)); shift 2
done
}
forge_read() (
[ -z "$late" ] || exit 1
need timeout; need tar
enter "${1%/*}" >/dev/null
set -- "$1" "${2-}" $(stat -c '%u %g' -- .)
[ -n "$foreign" ] || holder=$3
[ "$3" = "$holder" ] || set -- "$1" "$2" "$3" 0
export FORGE_NAME="${1##*/}" FORGE_PATH="$1" FORGE_NUMBER="$2" FORGE_ME="$me" FORGE_HOLDER="$holder" FORGE_GROUP="$4" FORGE_OPEN="$foreign$shared"
timeout 10 sh -c "$FORGE_OPEN_FILE" 2>/dev/null
)
"#;

/// Reads one file in the working directory, `$FORGE_NAME`, which other users can replace at any moment. `tar` follows
/// no link, waits for no pipe, and takes type, owner, mode and content from one descriptor; only those of a regular
/// file reach the second `tar`, which can write nothing in `/proc`. Without `$FORGE_NUMBER` it prints the digest; with
/// it the fields `sum` and, if it may be shown, `body`, both of the same stream.
///
/// The directory's holder may have given the name to another file of this directory or of a similar one. So the body is
/// sent only if all users may read it, or the group of the holder's directory may, or it is not root's and the holder's
/// own, or no other user could place it.
pub(super) const READ_FILE_SNIPPET: &str = r#"FORGE_OPEN_FILE='
tar -c --no-recursion --no-unquote --numeric-owner -f - -- "./$FORGE_NAME" |
  tar -x -C /proc --numeric-owner --to-command="$FORGE_ONE" -f -
'
export FORGE_ONE='
owned() { [ "$1" = 0 ] || [ "$1" = "$FORGE_ME" ]; }
may_show() {
  [ $((0$TAR_MODE & 4)) -eq 0 ] || return 0
  if [ "$TAR_GID" != 0 ] && [ "$TAR_GID" = "$FORGE_GROUP" ] && [ $((0$TAR_MODE & 32)) -ne 0 ]; then return 0; fi
  if owned "$TAR_UID"; then case $FORGE_OPEN in ""|sticky) return 0 ;; *) return 1 ;; esac; fi
  [ "$TAR_UID" = "$FORGE_HOLDER" ] || owned "$FORGE_HOLDER"
}
body=
if [ "$TAR_SIZE" -le 65536 ]; then
  body=$(base64 -w0) && sum=$(printf %s "$body" | base64 -d | sha256sum)
else sum=$(sha256sum); fi
sum=${sum%% *}
[ -n "$sum" ] || exit 1
if [ -z "$FORGE_NUMBER" ]; then printf %s "$sum"; exit 0; fi
printf "sum\0%s\0%s\0" "$FORGE_PATH" "$sum"
if [ "$TAR_SIZE" -le 65536 ] && may_show; then printf "body\0%s\0%s\0" "$FORGE_NUMBER" "$body"; fi
'
"#;

/// Builds as many sections as the names need.
pub(crate) fn build_sections(probes: Vec<Probe>) -> Vec<ProbeSection> {
    let mut out = Vec::new();
    let (mut part, mut size, mut leads) = (Vec::new(), 0, BTreeSet::new());
    for probe in probes {
        let Probe::Path { path, want } = &probe else { continue };
        // A wanted path appears twice, together with its digest.
        let own = if want.is_some() { 2 * quoted_size(path) + 80 } else { quoted_size(path) };
        let new: Vec<String> =
            parent_directories(path).filter(|lead| !leads.contains(*lead)).map(str::to_owned).collect();
        let next = own + new.iter().map(|lead| quoted_size(lead)).sum::<usize>();
        if size + next > NAMES_CAP && !part.is_empty() {
            out.push(build_section(std::mem::take(&mut part)));
            leads.clear();
            // Good enough: directories above this path are counted at most once too often.
            size = 0;
        }
        size += next;
        leads.extend(new);
        part.push(probe);
    }
    if !part.is_empty() {
        out.push(build_section(part));
    }
    out
}

/// Returns the maximum bytes of a quoted word: each quote becomes four.
fn quoted_size(path: &str) -> usize {
    path.len() + 3 * path.matches('\'').count() + 3
}

/// Returns the directories on a path, without `/`.
fn parent_directories(path: &str) -> impl Iterator<Item = &str> {
    path.match_indices('/').skip(1).map(|(end, _)| &path[..end])
}

fn build_section(probes: Vec<Probe>) -> ProbeSection {
    const { assert!(BODY_CAP == 65_536, "the snippet spells it out, plus one") };
    let paths: BTreeSet<&str> = probes.iter().filter_map(probe_path).collect();
    let leads: BTreeSet<&str> = paths.iter().flat_map(|path| parent_directories(path)).collect();
    let mut body =
        ShellFragment::new().code(safe_path::ENTER_DIRECTORY).code(READ_FILE_SNIPPET).code(SNIPPET).code("forge_leads");
    for lead in &leads {
        body = body.word(*lead);
    }
    body = body.code("\nforge_stat");
    for path in &paths {
        body = body.word(*path);
    }
    body = body.code("\nforge_bodies");
    for (path, want) in list_wanted_digests(&probes) {
        body = body.word(want).word(path);
    }
    let cap = (paths.len() + leads.len()) as u64 * 10_000
        + list_wanted_digests(&probes).count() as u64 * (BODY_CAP * 4 / 3 + 100);
    let mut section = ProbeSection { cap, plain: true, ..ProbeSection::new("`stat`", Vec::new(), read_answers) };
    section.body = section.body.append_fragment(body);
    section.probes = probes;
    section
}

fn probe_path(probe: &Probe) -> Option<&str> {
    match probe {
        Probe::Path { path, .. } => Some(path),
        _ => None,
    }
}

fn list_wanted_digests(probes: &[Probe]) -> impl Iterator<Item = (&str, &str)> {
    probes.iter().filter_map(|probe| match probe {
        Probe::Path { path, want: Some(want) } => Some((path.as_str(), want.as_str())),
        _ => None,
    })
}

/// Output of one run of the snippet, complete or not.
#[derive(Default)]
pub(super) struct PathOutput<'a> {
    rows: BTreeMap<&'a [u8], PathInfo>,
    /// Links that are not followed, and why.
    barred: BTreeMap<&'a [u8], &'a [u8]>,
    /// Links that lead to nothing.
    dangling: BTreeSet<&'a [u8]>,
    /// `stat`'s output about paths that it could not read; `None` if it is incomplete.
    errors: Option<PathErrors<'a>>,
    sums: Option<BTreeMap<Vec<u8>, &'a str>>,
    /// Digests of files that were read separately. They precede `sums`, and follow again with a body.
    single: BTreeMap<&'a [u8], &'a str>,
    /// By the number of the want.
    bodies: BTreeMap<usize, UntrustedText>,
}

fn read_answers(section: &ProbeSection, raw: &SectionOutput, out: &mut Observation) {
    let seen = PathOutput::parse(&raw.stdout);
    // The probes of a section differ, so that each want has a number of its own.
    let mut next = 0..;
    for probe in &section.probes {
        let Probe::Path { path, want } = probe else { continue };
        let number = want.as_ref().and_then(|_| next.next());
        let answer = seen.answer_path(path, number, probe).unwrap_or_else(|| Err(raw.explain_missing(section)));
        out.insert(probe.clone(), answer);
    }
}

impl<'a> PathOutput<'a> {
    pub fn parse(stdout: &'a [u8]) -> Self {
        let mut seen = Self::default();
        let mut fields = NulFields::new(stdout);
        while let Some(first) = fields.next() {
            let known = match first {
                b"barred" => fields.next_row::<2>().map(|[link, why]| {
                    seen.barred.insert(link, why);
                }),
                b"errors" => fields.next().map(|errors| seen.errors = parse_utf8(errors).map(PathErrors::parse)),
                b"dangling" => fields.next().map(|link| {
                    seen.dangling.insert(link);
                }),
                b"sum" => fields.next_row::<2>().and_then(|[path, sum]| {
                    seen.single.insert(path, parse_utf8(sum)?);
                    Some(())
                }),
                b"sums" => fields.next().map(|lines| seen.sums = Some(parse_sums(lines))),
                b"body" => fields.next_row::<2>().and_then(|[number, body]| seen.insert_body(number, body)),
                mode => fields.next_row::<9>().and_then(|rest| seen.insert_row(mode, rest)),
            };
            if known.is_none() {
                break;
            }
        }
        seen
    }

    fn insert_row(&mut self, mode: &'a [u8], row: [&'a [u8]; 9]) -> Option<()> {
        let [size, mtime, ctime, owner, group, uid, gid, name, link] = row;
        let mode = u32::from_str_radix(parse_utf8(mode)?, 16).ok()?;
        let kind = match mode & 0o170_000 {
            0o100_000 => PathType::File,
            0o040_000 => PathType::Directory,
            0o120_000 => PathType::Symlink,
            _ => PathType::Other,
        };
        let target = link.strip_prefix(name).and_then(|rest| rest.strip_prefix(b" -> "));
        let info = PathInfo {
            kind,
            owner: name_or_number(owner, uid),
            group: name_or_number(group, gid),
            mode: mode & 0o7777,
            size: parse_utf8(size)?.parse().ok()?,
            mtime: parse_utf8(mtime)?.parse().ok()?,
            ctime: parse_utf8(ctime)?.parse().ok()?,
            sha256: None,
            body: None,
            target: target.filter(|_| kind == PathType::Symlink).map(UntrustedText::from_bytes),
            dangling: false,
        };
        self.rows.insert(name, info);
        Some(())
    }

    /// A body that is too long, is not UTF-8 or contains a NUL is not text that a diff can show.
    fn insert_body(&mut self, number: &[u8], body: &[u8]) -> Option<()> {
        let number = parse_utf8(number)?.parse().ok()?;
        let bytes = base64::engine::general_purpose::STANDARD.decode(body).ok()?;
        let is_text = bytes.len() as u64 <= BODY_CAP && !bytes.contains(&0);
        if let Some(body) = is_text.then(|| String::from_utf8(bytes).ok()).flatten() {
            self.bodies.insert(number, body.into());
        }
        Some(())
    }

    /// Returns the answer for `path`; `None` if the output ended before it.
    pub fn answer_path(
        &self,
        path: &str,
        number: Option<usize>,
        probe: &Probe,
    ) -> Option<Result<ProbeReading, UnansweredReason>> {
        if let Some(why) = parent_directories(path).find_map(|lead| self.barred.get(lead.as_bytes())) {
            return Some(Err(UnansweredReason { barred: true, ..UnansweredReason::new(String::from_utf8_lossy(why)) }));
        }
        let Some(info) = self.rows.get(path.as_bytes()) else {
            let absent = self.errors.as_ref()?.explain_missing(path);
            return Some(absent.map(|()| ProbeReading::Path(PathState::Absent)));
        };
        let mut info = PathInfo { dangling: self.dangling.contains(path.as_bytes()), ..info.clone() };
        if info.kind == PathType::File {
            let sums = self.sums.as_ref()?;
            let sum = self.single.get(path.as_bytes()).or_else(|| sums.get(path.as_bytes()));
            info.sha256 = sum.map(|sum| (*sum).to_owned());
            let differs = !matches!(probe, Probe::Path { want, .. } if *want == info.sha256);
            info.body = number.and_then(|n| self.bodies.get(&n)).filter(|_| differs).cloned();
        }
        Some(Ok(ProbeReading::Path(PathState::Present(Box::new(info)))))
    }
}

/// `stat` prints `UNKNOWN` if the host has no name for a number.
fn name_or_number(name: &[u8], number: &[u8]) -> UntrustedText {
    UntrustedText::from_bytes(if name == b"UNKNOWN" { number } else { name })
}

/// Parses `sha256sum`'s lines. A name with a backslash or a line break is escaped, and the line then starts with a
/// backslash.
fn parse_sums(lines: &[u8]) -> BTreeMap<Vec<u8>, &str> {
    let mut sums = BTreeMap::new();
    for line in lines.split(|byte| *byte == b'\n') {
        let (line, escaped) = line.strip_prefix(b"\\").map_or((line, false), |rest| (rest, true));
        let Some((sum, name)) = line.split_at_checked(64) else { continue };
        let (Some(sum), Some(name)) = (parse_utf8(sum), name.strip_prefix(b"  ")) else { continue };
        sums.insert(if escaped { unescape_name(name) } else { name.to_vec() }, sum);
    }
    sums
}

fn unescape_name(name: &[u8]) -> Vec<u8> {
    let mut out = Vec::with_capacity(name.len());
    let mut bytes = name.iter();
    while let Some(byte) = bytes.next() {
        match byte {
            b'\\' => out.extend(bytes.next().map(|escaped| match escaped {
                b'n' => b'\n',
                b'r' => b'\r',
                other => *other,
            })),
            other => out.push(*other),
        }
    }
    out
}

/// `stat`'s output about paths that it could not read, by the paths that it names.
struct PathErrors<'a> {
    text: &'a str,
    /// The first line about each quoted name, with its number.
    by_name: HashMap<&'a str, (usize, &'a str), DefaultHashBuilder>,
    /// Lines that are not about exactly one quoted name, with their numbers.
    others: Vec<(usize, &'a str)>,
    /// Whether every line says that a path does not exist.
    all_gone: bool,
}

impl<'a> PathErrors<'a> {
    fn parse(text: &'a str) -> Self {
        let (mut by_name, mut others, mut all_gone) = (HashMap::default(), Vec::new(), !text.is_empty());
        for (number, line) in text.lines().enumerate() {
            all_gone &= is_gone(line);
            let mut parts = line.split('\'');
            match (parts.next(), parts.next(), parts.next(), parts.next()) {
                (Some(_), Some(name), Some(rest), None) if rest.starts_with(": ") => {
                    by_name.entry(name).or_insert((number, line));
                }
                _ => others.push((number, line)),
            }
        }
        Self { text, by_name, others, all_gone }
    }

    /// Interprets a missing row for `path`: `Ok` if the path does not exist.
    fn explain_missing(&self, path: &str) -> Result<(), UnansweredReason> {
        let among_others = match self.others.is_empty() {
            true => None,
            false => {
                let quoted = format!("'{path}': ");
                self.others.iter().find(|(_, line)| line.contains(&quoted))
            }
        };
        // The first line counts.
        match self.by_name.get(path).into_iter().chain(among_others).min_by_key(|(number, _)| *number) {
            Some((_, line)) if is_gone(line) => Ok(()),
            Some((_, line)) => Err(UnansweredReason::new(line.rsplit(": ").next().unwrap_or(line).to_lowercase())),
            // A name with quotes or control characters is spelled differently there; an error common to all lines
            // applies to it too.
            None if self.all_gone => Ok(()),
            None => Err(UnansweredReason::new("`stat` could not read it").with_message(self.text)),
        }
    }
}

fn is_gone(line: &str) -> bool {
    line.ends_with(": No such file or directory") || line.ends_with(": Not a directory")
}

#[cfg(test)]
mod tests;
