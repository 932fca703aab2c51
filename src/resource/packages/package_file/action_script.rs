//! The commands of a package file: place it on the host, check it against the declaration, install it.

use super::{PackageFileResource, PackageFileSource};
use crate::model::Value;
use crate::probe::PackageManagerKind;
use crate::resource::packages::package::{action_script as apt, dnf};
use crate::resource::shared::shell;
use crate::resource::{Action, ActionScript, Assessment};
use crate::script::{ShellFragment, safe_path};

pub(super) fn render_action(want: &PackageFileResource, judgement: &Assessment) -> Action {
    let text = |key: &str| judgement.basis.get(key).and_then(Value::as_str);
    let name = text("package").or(want.name.as_deref()).unwrap_or_default().to_owned();
    let manager = match (want.absent, text("manager")) {
        (true, Some("rpm")) => PackageManagerKind::Rpm,
        (true, _) => PackageManagerKind::Dpkg,
        (false, _) => want.manager,
    };
    let (opened, explain) = match manager {
        PackageManagerKind::Dpkg => (apt::open_apt_script(want.lock_timeout, &name), apt::EXPLAIN),
        PackageManagerKind::Rpm => (dnf::open_dnf_script(want.lock_timeout, &name), dnf::EXPLAIN),
    };
    let body = match (want.absent, manager) {
        (true, PackageManagerKind::Dpkg) => apt::render_removal(&[name], false, opened),
        (true, PackageManagerKind::Rpm) => dnf::render_removal(&[name], opened),
        (false, _) => render_install(want, judgement, &name, opened),
    };
    Action::Script(ActionScript { body: shell::close_action(body), long: true, explain })
}

fn render_install(
    want: &PackageFileResource,
    judgement: &Assessment,
    name: &str,
    action: ShellFragment,
) -> ShellFragment {
    let version = judgement.basis.get("wanted").and_then(Value::as_str).or(want.version.as_deref());
    let action = action
        .code("set --")
        .word(name)
        .word(version.unwrap_or_default())
        .word(want.sha256.as_deref().unwrap_or_default())
        .code("\nname=$1 version=$2 sha256=$3\n");
    let placed = render_placement(want, action).code(CHECK_DIGEST);
    match want.manager {
        PackageManagerKind::Dpkg => {
            let downgrade = judgement.changes.iter().any(|c| c.attribute == "downgrade");
            let option = if downgrade { "downgrade=--allow-downgrades\n" } else { "downgrade=\n" };
            placed.code(CHECK_DEB).code(option).code(INSTALL_DEB)
        }
        PackageManagerKind::Rpm => placed.code(CHECK_RPM).code("run_dnf install -- \"$file\" || exit 1\n"),
    }
}

/// Sets `$file` to the path of the file.
fn render_placement(want: &PackageFileResource, action: ShellFragment) -> ShellFragment {
    match &want.from {
        PackageFileSource::Path(path) => action
            .code(safe_path::ENTER_DIRECTORY)
            .code(safe_path::REQUIRE_TRUSTED_FILE)
            .code("set --")
            .word(path)
            .code("\nfile=$1\n[ -f \"$file\" ] || fail \"there is no file at $file\"\ntrusted \"$file\"\n"),
        PackageFileSource::Source(body) => {
            let ends = if want.manager.is_dpkg() { ".deb" } else { ".rpm" };
            let action = action.code(FOLDER).code("set --").word(ends).code("\nfile=$folder/package$1\nprintf %s");
            action.data(body.bytes()).code(" | base64 -d >\"$file\" || fail \"cannot write $file\"\n")
        }
        PackageFileSource::Nothing => action,
    }
}

/// apt reads the file with its own account, which must be able to enter the directory.
const FOLDER: &str = r#"folder=$(mktemp -d /var/tmp/forge-package.XXXXXX) || fail "cannot make a folder under /var/tmp"
chmod 755 -- "$folder"
trap 'rm -rf -- "$folder"' EXIT
trap 'exit 143' HUP INT TERM
"#;

const CHECK_DIGEST: &str = r#"
[ -f "$file" ] || fail "there is no file at $file"
if [ -n "$sha256" ]; then
  found=$(sha256sum <"$file") || fail "cannot read $file"
  found=${found%% *}
  if [ "$found" != "$sha256" ]; then fail "$file has the sha256 $found, declared is $sha256: nothing was installed"; fi
fi
"#;

const CHECK_DEB: &str = r#"
found=$(dpkg-deb -W --showformat='${Package} ${Version}' -- "$file") || fail "the file is not a .deb"
if [ "${found%% *}" != "${name%%:*}" ] || ! dpkg --compare-versions "${found#* }" eq "${version:-${found#* }}"; then
  fail "the file holds $found, $name $version is declared: nothing was installed"
fi
"#;

/// The declared version may omit an epoch of 0 and the release; the file may have an epoch of 0 or none.
const CHECK_RPM: &str = r#"
found=$(rpm -qp --nosignature --qf '%{NAME} %{EVR}' -- "$file") || fail "the file is not a .rpm"
bare=${version#0:}
holds=${found#* }
holds=${holds#0:}
if [ "${found%% *}" != "$name" ] || { [ -n "$bare" ] && [ "$holds" != "$bare" ] && [ "${holds%-*}" != "$bare" ]; }; then
  fail "the file holds $found, $name $version is declared: nothing was installed"
fi
"#;

const INSTALL_DEB: &str = r#"
finish
apt install --no-remove $downgrade -- "$file" || exit 1
"#;
