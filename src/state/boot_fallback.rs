//! The fallback of a reboot: GRUB boots the changed entry once. If the machine starts again without a confirmation, after
//! a panic or a power cycle, it boots as it booted before the run.
//!
//! GRUB of Debian and Ubuntu reads `custom.cfg` last. The file gets an entry with the kernel and the arguments that run now,
//! and the initramfs image from before the run, and makes it the default. `grub-reboot` chooses the regular default for the
//! next boot only; GRUB forgets that choice before it boots. The fallback is recognized by its kernel argument.

use crate::script::ShellFragment;

/// The kernel argument of the fallback entry, without the run.
pub(super) const FALLBACK_ARGUMENT: &str = "forge.fallback";

/// Appends the commands that prepare the fallback of a run, with the initramfs images that the run built again. Where
/// GRUB cannot do that, they change nothing.
pub(super) fn add_fallback(script: ShellFragment, run: &str, images: &[(String, String)]) -> ShellFragment {
    let copies: String = images.iter().map(|(image, copy)| format!("{image} {copy}\n")).collect();
    script.code("(\nset --").word(run).word(copies).code(PREPARE).code(") >/dev/null 2>&1 || :\n")
}

/// Removes the fallback. The choice for the next boot would remain on file systems that GRUB cannot write to.
pub(super) const REMOVE_FALLBACK: &str = r#"
if grep -qs '^# forge: ' /boot/grub/custom.cfg; then
  rm -f -- /boot/grub/custom.cfg && grub-editenv /boot/grub/grubenv unset next_entry
  sync -- /boot/grub
fi
"#;

/// `$1` run, `$2` a line `IMAGE COPY` for each image. Arguments that GRUB would change are not passed on: no fallback then.
const PREPARE: &str = r#"
run=$1 copies=$2 menu=/boot/grub/grub.cfg
[ ! -e /run/systemd/container ] && [ -s "$menu" ] && [ ! -e /boot/grub/custom.cfg ] && command -v grub-reboot || exit 0
grep -q 'source \${config_directory}/custom.cfg' "$menu" && grep -q 'set boot_once=true' "$menu" || exit 0
IFS= read -r running </proc/cmdline
case $running in *[!A-Za-z0-9_.,:\;=/+@%~\ -]*) exit 0 ;; BOOT_IMAGE=*) ;; *) exit 0 ;; esac
kernel=${running%% *} kernel=${kernel#BOOT_IMAGE=} arguments=
for word in ${running#* }; do arguments="$arguments '$word'"; done
regular=$(sed -n 's/^[[:space:]]*set default="\(.*\)"$/\1/p' "$menu" | grep -v next_entry | head -n 1)
case $regular in
  '${saved_entry}') regular=$(grub-editenv /boot/grub/grubenv list | sed -n 's/^saved_entry=//p') ;;
  *'$'*) exit 0 ;;
esac
entry=$(KERNEL=$kernel ARGUMENTS="$arguments 'forge.fallback=$run'" COPIES=$copies awk '
  BEGIN {
    lines = split(ENVIRON["COPIES"], line, "\n")
    for (i = 1; i <= lines; i++) if (split(line[i], part, " ") == 2) { sub(".*/", "", part[1]); sub(".*/", "", part[2]); copy[part[1]] = part[2] }
  }
  $1 == "menuentry" { inside = 1; found = 0; body = ""; next }
  inside && $1 == "}" { if (found) { printf "%s", body; exit } inside = 0; next }
  inside && $1 ~ /^linux/ {
    if ($2 == ENVIRON["KERNEL"]) found = 1
    $0 = "\t" $1 " " $2 ENVIRON["ARGUMENTS"]
  }
  inside && $1 ~ /^initrd/ {
    for (i = 2; i <= NF; i++) { name = $i; sub(".*/", "", name); if (name in copy) sub("[^/]*$", copy[name], $i) }
  }
  inside { body = body $0 "\n" }
' "$menu")
[ -n "$entry" ] || exit 0
{
  printf '# forge: boots as before run %s, unless the boot after it is confirmed.\n' "$run"
  printf "menuentry 'forge: as before run %s' --unrestricted --id forge-fallback {\n%s\n}\n" "$run" "$entry"
  printf 'if [ "${boot_once}" != "true" ]; then\n  set default=forge-fallback\nfi\n'
} >/boot/grub/.custom.cfg.new || exit 0
! command -v grub-script-check || grub-script-check /boot/grub/.custom.cfg.new || { rm -f /boot/grub/.custom.cfg.new; exit 0; }
chmod 0600 /boot/grub/.custom.cfg.new && sync -- /boot/grub/.custom.cfg.new && grub-reboot "${regular:-0}" &&
  mv -f -T -- /boot/grub/.custom.cfg.new /boot/grub/custom.cfg && sync -- /boot/grub /boot/grub/grubenv
"#;
