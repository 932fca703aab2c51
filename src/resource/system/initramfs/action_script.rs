//! Rebuilds images. Each old image is copied first and restored if anything fails.

use super::image_diff::{ImageRebuild, InitramfsDiff};
use crate::probe::InitramfsMaker;
use crate::resource::shared::shell;
use crate::script::ShellFragment;

/// Renders the rebuild of every image that changes.
pub(super) fn render_script(diff: &InitramfsDiff, run: &str) -> ShellFragment {
    let nothing = ShellFragment::new().code(":\n");
    let InitramfsDiff::Rebuild { maker, images } = diff else { return nothing };
    let rebuild = |image: &ImageRebuild| {
        let words = shell::open_action().word(maker_program(*maker)).word(&image.kernel).word(&image.path).word(run);
        shell::close_action(words.code(REBUILD))
    };
    let and = |all: ShellFragment, one: ShellFragment| all.code("[ $? -eq 0 ] &&\n").append_fragment(one);
    images.iter().map(rebuild).fold(nothing, and)
}

/// Returns the name by which the script knows the program.
fn maker_program(maker: InitramfsMaker) -> &'static str {
    match maker {
        InitramfsMaker::Unknown => "unknown",
        InitramfsMaker::InitramfsTools => "initramfs-tools",
        InitramfsMaker::Dracut => "dracut",
    }
}

/// The old image is copied, never moved: the host must be able to boot at any moment. The copy gets its final name only
/// once it is complete. `update-initramfs` replaces the old image atomically; dracut writes into the existing file, so
/// it gets another file name.
const REBUILD: &str = r#"
maker=$1 kernel=$2 image=$3 kept=$3.forge-$4 old=
dir=${image%/*}
rm -f -- "$image".forge-*.part
if [ -e "$image" ]; then
  old=$(stat -L -c %s -- "$image") || fail "cannot read $image"
  free=$(df -B1 --output=avail -- "$dir" | tail -n 1) || fail "cannot read the free space of $dir"
  [ "$free" -ge $((old * 2)) ] ||
    fail "$dir has $free bytes free, and a rebuild of $image needs twice its $old: nothing was done"
  cp -pL -- "$image" "$kept.part" && sync -- "$kept.part" && mv -fT -- "$kept.part" "$kept" && sync -- "$dir/" ||
    fail "cannot copy $image: nothing was rebuilt"
  one=$(sha256sum < "$image") && two=$(sha256sum < "$kept") && [ "$one" = "$two" ] ||
    fail "the copy $kept is not the same as $image: nothing was rebuilt"
fi
back() {
  if [ -z "$old" ]; then rm -f -- "$image"; fail "$1"; fi
  cp -p -- "$kept" "$kept.part" && mv -fT -- "$kept.part" "$image" && sync -- "$dir/" ||
    fail "$1; the old image could not be put back: it is $kept"
  fail "$1: the old image was put back"
}
case $maker in
  initramfs-tools) if [ -n "$old" ]; then set -- -u; else set -- -c; fi
    update-initramfs "$@" -k "$kernel" ;;
  dracut) made=$dir/.forge-${image##*/}
    rm -f -- "$made"
    dracut --force "$made" "$kernel" && sync -- "$made" && mv -fT -- "$made" "$image" || { rm -f -- "$made"; false; } ;;
  *) fail "no supported program to build $image" ;;
esac || back "the image of $kernel could not be rebuilt"
new=$(stat -L -c %s -- "$image") || back "the rebuild produced no image of $kernel"
if [ -n "$old" ] && { [ "$new" -lt $((old / 2)) ] || [ "$new" -gt $((old * 2)) ]; }; then
  back "the new image of $kernel has $new bytes, the old one had $old"
fi
sync -- "$image" && sync -- "$dir/" || back "cannot sync $image"
ls -1t -- "$image".forge-* 2>/dev/null | tail -n +3 | while IFS= read -r name; do rm -f -- "$name"; done
"#;

pub(super) const EXPLAIN: &[(&str, &str)] = &[
    ("nothing was done", "free space in `/boot`: remove unused kernels and unneeded copies `*.forge-*`"),
    ("No space left on device", "`/boot` or `/var/tmp` is full; the image is first built in `/var/tmp`"),
    ("Not updating", "`/boot` is mounted read-only, or `update-initramfs.conf` sets `update_initramfs=no`"),
    (
        "bytes, the old one had",
        "compare both images with `lsinitramfs` or `lsinitrd`; remove the old image to skip the size check",
    ),
    ("missing /lib/modules", "the modules of this kernel are not installed"),
    ("update-initramfs: failed for", "an initramfs hook failed, see its messages above; the old image was restored"),
];
