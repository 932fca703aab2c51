//! Initramfs images: which exist, when they were created, and their content, as listed by the programs that create
//! them.

use super::query::Probe;
use super::section::{NulFields, ProbeSection, SectionOutput, parse_utf8};
use super::{EarlyImage, InitramfsMaker, InitramfsState, ModuleInside, Observation, ProbeReading, cmdline};
use crate::model::UntrustedText;
use std::collections::{BTreeMap, BTreeSet};

/// Unpacking an image of some hundred MB takes seconds, and there may be several.
const LIMIT_S: u64 = 180;

/// Sets `v` to the kernels in `/boot`, the newest first, and `n` to the next one to boot; `all` to `yes` if
/// `GRUB_DEFAULT` selects a kernel in a custom way.
pub(crate) const NEXT_KERNEL: &str = r#"
forge_next() {
v=$(ls -1 /boot 2>/dev/null | sed -n 's/^vmlinu[xz]-//p' | grep -v -e rescue -e '\.old$' -e '\.bak$' | sort -rV)
d=$(grep -hs '^[[:space:]]*GRUB_DEFAULT=' /etc/default/grub /etc/default/grub.d/*.cfg | tail -n 1 | sed 's/.*=//; s/["'\'']//g')
n=
if command -v grubby >/dev/null; then
n=$(grubby --default-kernel 2>/dev/null); n=${n##*/vmlinuz-}
else
case $d in '' | 0) ;; *) all=yes ;; esac
fi
[ -n "$n" ] || n=$(printf '%s\n' "$v" | sed -n 1p)
}
"#;

/// `forge_initramfs ALL N FILE… MODULE…` prints fields: `container`; `host`, the generator, the running kernel and its
/// boot time; `file`, path and digest of each file; `image`, kernel and path of each image, followed by `made`,
/// `trouble`, `inside` (path, digest) and `module` (name, what this kernel has, its source's digest, whether it is
/// inside, its source's digest there); `end`.
///
/// Only requested files that are in the image are unpacked, into a temporary folder that is removed afterwards:
/// `lsinitramfs` does the same. Folders that killed scripts left are removed once they are an hour old. A name is found
/// with and without `usr/`, and only if its path stays inside the folder.
const SNIPPET: &str = r#"
need uname; need stat; need sort; need grep; need sed; need sha256sum; need mktemp; need readlink
forge_digest() { if [ -f "$1" ] && [ ! -L "$1" ]; then s=$(sha256sum <"$1") && s=${s%% *}; else s=none; fi; }
forge_maker() {
m=unknown p=/boot/initrd.img- e=
if command -v update-initramfs >/dev/null && command -v unmkinitramfs >/dev/null; then m=initramfs-tools; fi
if command -v dracut >/dev/null && command -v lsinitrd >/dev/null; then
if [ "$m" = unknown ] || { [ -e "/boot/initramfs-$k.img" ] && [ ! -e "/boot/initrd.img-$k" ]; }; then
m=dracut
if [ -e "/boot/initrd-$k" ]; then p=/boot/initrd-
elif [ ! -e "/boot/initrd.img-$k" ] && [ ! -e /etc/debian_version ]; then p=/boot/initramfs- e=.img
fi
fi
fi
}
forge_kernels() {
forge_next
printf '%s\n' "$v" | grep -xF -- "$k"
printf '%s\n' "$n" | grep -vxF -- "$k"
[ "$all" = no ] || printf '%s\n' "$v" | grep -vxF -e "$k" -e "$n"
}
forge_list() {
if [ "$m" = dracut ]; then
lsinitrd "$i" >"$t/raw" && sed -n 's/^[-dlcbps][-rwxsStT]\{9\}[.+]* \{1,\}[0-9]\{1,\} \{1,\}[^ ]\{1,\} \{1,\}[^ ]\{1,\} \{1,\}[0-9, ]\{1,\}[A-Z][a-z][a-z] \{1,\}[0-9]\{1,2\} \{1,\}[0-9:]\{4,5\} //p' <"$t/raw" | sed 's/ -> .*//' >"$t/list"
else
lsinitramfs "$i" >"$t/list"
fi && [ -s "$t/list" ]
}
forge_unpack() {
[ "$m" != dracut ] || return 0
[ ! -e "$t/tree" ] || return 0
unmkinitramfs "$i" "$t/tree"
}
forge_member() {
f=
for c in "$1" "usr/$1" "${1#usr/}"; do
grep -qxF -e "$c" -e "./$c" "$t/list" || continue
if [ "$m" = dracut ]; then
mkdir -p "$t/one" && f=$t/one/${c##*/} && lsinitrd -f "$c" "$i" >"$f" || return 2
return 0
fi
forge_unpack || return 2
for r in "$t/tree/main/$c" "$t/tree/$c"; do
[ ! -f "$r" ] || [ -L "$r" ] || case $(readlink -f -- "$r") in "$t"/*) f=$r; return 0 ;; esac
done
return 2
done
}
forge_inside() {
forge_member "${1#/}" || return 2
if [ -z "$f" ]; then s=none; else forge_digest "$f"; fi
printf 'inside\0%s\0%s\0' "$1" "$s"
}
forge_module() {
h=none g=
if o=$(modinfo -k "$v" -F filename "$1" 2>/dev/null) && [ -n "$o" ]; then
case $o in *builtin*) h=builtin ;; *) h=module; g=$(modinfo -k "$v" -F srcversion "$1") || g= ;; esac
fi
x=none y=
c=$(grep -E "/$(printf %s "$1" | sed 's/_/[_-]/g')\.ko(\.[a-z0-9]+)?$" "$t/list" | sed -n 1p)
if [ -n "$c" ]; then
forge_member "${c#./}" || return 2
x=inside; y=$(modinfo -F srcversion "$f") || y=
fi
printf 'module\0%s\0%s\0%s\0%s\0%s\0' "$1" "$h" "$g" "$x" "$y"
}
forge_image() {
forge_list || return 2
q=$n
for a; do
if [ "$q" -gt 0 ]; then q=$((q - 1)); forge_inside "$a" || return 2; else forge_module "$a" || return 2; fi
done
}
forge_leftovers() {
for o in "${TMPDIR:-/var/tmp}"/forge-initramfs.*; do
if [ -d "$o" ] && [ -O "$o" ] && [ ! -L "$o" ]; then find "$o" -maxdepth 0 -mmin +60 -exec rm -rf -- {} + 2>/dev/null || :; fi
done
}
forge_initramfs() {
all=$1 n=$2
shift 2
k=$(uname -r) && b=$(sed -n 's/^btime //p' /proc/stat) || exit 2
forge_container
forge_maker
[ "$#" = "$n" ] || [ "$m" = unknown ] || need modinfo
printf 'host\0%s\0%s\0%s\0' "$m" "$k" "$b"
q=$n
for a; do
[ "$q" -gt 0 ] || break
q=$((q - 1))
forge_digest "$a" || exit 2
printf 'file\0%s\0%s\0' "$a" "$s"
done
forge_leftovers
[ "$m" = unknown ] || for v in $(forge_kernels); do
i=$p$v$e
printf 'image\0%s\0%s\0' "$v" "$i"
[ -e "$i" ] || continue
o=$(stat -L -c %Z -- "$i") || exit 2
printf 'made\0%s\0' "$o"
(
t=$(mktemp -d "${TMPDIR:-/var/tmp}/forge-initramfs.XXXXXX") || { printf 'trouble\0no folder can be made in /var/tmp\0'; exit; }
trap 'rm -rf -- "$t"' EXIT
trap 'exit 143' HUP INT TERM
forge_image "$@" 2>"$t/said" || { printf 'trouble\0%s\0' "$(tail -n 3 "$t/said")"; }
)
done
printf 'end\0'
}
forge_initramfs"#;

pub(crate) fn build_section(probes: Vec<Probe>) -> Option<ProbeSection> {
    let (mut files, mut modules, mut all) = (BTreeSet::new(), BTreeSet::new(), false);
    for probe in &probes {
        if let Probe::Initramfs { files: f, modules: m, all: a } = probe {
            files.extend(f.clone());
            modules.extend(m.clone());
            all |= a;
        }
    }
    let mut section = ProbeSection::new("reading the images of early boot", probes, read_answers);
    section.timeout_s = LIMIT_S;
    let body = section.body.code(cmdline::CONTAINER_SNIPPET).code(NEXT_KERNEL).code(SNIPPET);
    let body = body.word(if all { "yes" } else { "no" }).number(files.len() as u64);
    section.body = files.into_iter().chain(modules).fold(body, |body, word| body.word(word));
    (!section.probes.is_empty()).then_some(section)
}

fn read_answers(section: &ProbeSection, raw: &SectionOutput, out: &mut Observation) {
    let seen = if raw.is_complete(&[0]) { parse_state(&raw.stdout) } else { None };
    for probe in &section.probes {
        let answer = seen.clone().map(|state| ProbeReading::Initramfs(Box::new(state)));
        out.insert(probe.clone(), answer.ok_or_else(|| raw.explain_missing(section)));
    }
}

/// Parses the whole output; `None` if it is incomplete.
fn parse_state(stdout: &[u8]) -> Option<InitramfsState> {
    let mut fields = NulFields::new(stdout);
    let [b"container", container, b"host", maker, running, booted] = fields.next_row()? else { return None };
    let mut state = InitramfsState {
        maker: self::parse_maker(maker)?,
        container: parse_utf8(container)?.to_owned(),
        running: parse_utf8(running)?.to_owned(),
        booted: parse_utf8(booted)?.parse().ok()?,
        images: Vec::new(),
        files: BTreeMap::new(),
    };
    loop {
        match fields.next()? {
            b"file" => {
                let [path, digest] = fields.next_row()?;
                state.files.insert(parse_utf8(path)?.to_owned(), self::parse_digest(digest)?);
            }
            b"image" => {
                let [kernel, path] = fields.next_row()?;
                let (kernel, path) = (parse_utf8(kernel)?.to_owned(), parse_utf8(path)?.to_owned());
                state.images.push(EarlyImage { kernel, path, ..EarlyImage::default() });
            }
            b"end" => return Some(state),
            tag => state.images.last_mut()?.read_field(tag, &mut fields)?,
        }
    }
}

fn parse_maker(name: &[u8]) -> Option<InitramfsMaker> {
    match name {
        b"unknown" => Some(InitramfsMaker::Unknown),
        b"initramfs-tools" => Some(InitramfsMaker::InitramfsTools),
        b"dracut" => Some(InitramfsMaker::Dracut),
        _ => None,
    }
}

/// Parses a digest; `none` means not a regular file.
fn parse_digest(field: &[u8]) -> Option<Option<String>> {
    let digest = parse_utf8(field)?;
    Some((digest != "none").then(|| digest.to_owned()))
}

impl EarlyImage {
    fn read_field(&mut self, tag: &[u8], fields: &mut NulFields<'_>) -> Option<()> {
        match tag {
            b"made" => self.made = Some(parse_utf8(fields.next()?)?.parse().ok()?),
            b"trouble" => {
                let said = String::from_utf8_lossy(fields.next()?).trim().to_owned();
                self.trouble =
                    UntrustedText::new(if said.is_empty() { "the listing is empty".to_owned() } else { said });
            }
            b"inside" => {
                let [path, digest] = fields.next_row()?;
                self.files.insert(parse_utf8(path)?.to_owned(), self::parse_digest(digest)?);
            }
            b"module" => {
                let [name, host, digest, inside, digest_inside] = fields.next_row()?;
                let module = ModuleInside {
                    builtin: host == b"builtin",
                    host: (host != b"none").then(|| parse_utf8(digest)).flatten().map(str::to_owned),
                    inside: (inside == b"inside").then(|| parse_utf8(digest_inside)).flatten().map(str::to_owned),
                };
                self.modules.insert(parse_utf8(name)?.to_owned(), module);
            }
            _ => return None,
        }
        Some(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::probe::section::testing::{answers, printed, recorded};

    fn probe() -> Probe {
        Probe::Initramfs { files: vec![], modules: vec![], all: false }
    }

    fn ask(raw: &SectionOutput) -> Result<InitramfsState, String> {
        let seen = answers(&build_section(vec![probe()]).expect("a section"), raw);
        match seen.get(&probe()) {
            Ok(ProbeReading::Initramfs(state)) => Ok(*state.clone()),
            Ok(other) => panic!("{other:?}"),
            Err(unknown) => Err(unknown.why),
        }
    }

    #[test]
    fn images_are_parsed() {
        for fixture in [
            include_str!("../../tests/fixtures/probe/initramfs-debian.txt"),
            include_str!("../../tests/fixtures/probe/initramfs-dracut.txt"),
        ] {
            let state = ask(&recorded(fixture)).unwrap();
            let shown = serde_json::to_string_pretty(&state).unwrap();
            insta::assert_snapshot!(format!("images_{:?}", state.maker), shown);
        }
    }

    #[test]
    fn unreadable_image_gives_the_reason() {
        let text = "container\0\0host\0initramfs-tools\0k\09\0image\0k\0/boot/initrd.img-k\0made\09\0trouble\0\0end\0";
        let state = ask(&printed(text)).unwrap();
        assert_eq!(state.images[0].trouble.raw(), "the listing is empty");
        assert_eq!(state.images[0].made, Some(9.0));
        for cut in [10, 60, text.len() - 2] {
            let why = "reading the images of early boot returned no answer";
            assert_eq!(ask(&printed(&text[..cut])), Err(why.into()));
        }
    }

    #[test]
    fn requests_of_several_steps_are_merged() {
        let one = |files: &[&str], modules: &[&str], all| Probe::Initramfs {
            files: files.iter().map(|f| (*f).to_owned()).collect(),
            modules: modules.iter().map(|m| (*m).to_owned()).collect(),
            all,
        };
        let section = build_section(vec![one(&["/b"], &["m"], false), one(&["/a", "/b"], &[], true)]).unwrap();
        let text = section.body.render(&crate::model::SecretStore::default()).unwrap();
        let text = secrecy::ExposeSecret::expose_secret(&text);
        assert!(text.ends_with("forge_initramfs 'yes' '2' '/a' '/b' 'm'"), "{text}");
    }
}
