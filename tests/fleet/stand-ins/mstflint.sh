# Firmware of the adapters of simulated hardware, in the words of recorded sessions: `q` as in the tests of
# openstack/ironic-python-agent (with the version, PSID and address of the card; `FW Version(Running)` until the reset, as
# in Mellanox/mstflint's source), `burn` as in public guides. An image is a file with a version and a PSID.
# shellcheck shell=bash disable=SC2154

begin "$work"
put "$work" usr/bin/mstflint 755 <<'END'
#!/bin/sh
flash=/srv/forge-hardware/flash
show() {
  printf 'Image type:            FS4\nFW Version:            %s\n' "$1"
  [ "$1" = "$2" ] || printf 'FW Version(Running):   %s\n' "$2"
  printf 'FW Release Date:       28.10.2022\nProduct Version:       %s\n' "$1"
  printf 'Rom Info:              type=UEFI version=14.28.15 cpu=AMD64,AARCH64\n                       type=PXE version=3.6.804 cpu=AMD64\n'
  printf 'Description:           UID                GuidsNumber\nImage VSD:             N/A\nDevice VSD:            N/A\nPSID:                  %s\n' "$3"
  printf 'Security Attributes:   N/A\n'
}
case "$1 $3" in
'-i q') read -r version psid <"$2"; show "$version" "$version" "$psid"; exit ;;
'-d q' | '-d -i') ;;
*) exit 1 ;;
esac
function=/sys/bus/pci/devices/$2
[ -e "$function/infiniband" ] || { echo "-E- Cannot open Device: $2. No such file or directory. MFE_CR_ERROR"; exit 1; }
running=$(cat "$function"/infiniband/*/fw_ver) own=$(cat "$function"/infiniband/*/board_id)
stored=$(cat "$flash/${2%.*}" 2>/dev/null) || stored=$running
[ "$3" != q ] || { show "$stored" "$running" "$own"; exit; }
[ "$5 $6" = '-y burn' ] || exit 1
read -r version psid <"$4"
[ "$psid" = "$own" ] || { echo "-E- PSID mismatch. The PSID on flash ($own) differs from the PSID in the given image ($psid)."; exit 1; }
printf '\n    Current FW version on flash:  %s\n    New FW version:               %s\n\n' "$stored" "$version"
mkdir -p "$flash" && echo "$version" >"$flash/${2%.*}" && echo "$2" >>/srv/forge-hardware/burned
printf 'FSMST_INITIALIZE -   OK\nWriting Boot image component -   OK\n-I- To load new FW run mstfwreset or reboot machine.\n'
END
finish "$work" mstflint 4.21.0+1-1
