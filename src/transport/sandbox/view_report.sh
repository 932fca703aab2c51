# Prints what differs between a view and its host, one finding per line, fields separated by tabs; the last line is `end`.
# Runs on the host and writes to the memory of the view only.
# $1 process 1 of the view, $2 id of the view.
set -u
export PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin LC_ALL=C
root=/proc/$1/root upper=/proc/$1/fd/7
kept=$root/usr/local/lib/forge-sandbox
t=$root/run/.forge-report
[ "$(cat "$kept/id" 2>/dev/null)" = "$2" ] || { echo 'the view has ended' >&2; exit 1; }
rm -rf "$t"
mkdir -m 700 "$t" || exit 1
stat -f -c '%b %f %S' "$upper/1" | awk '{ printf "space\t%d\t%d\n", ($1 - $2) * $3 / 1024, $1 * $3 / 1024 }'
sed 's/^/hidden\t/' "$kept/hidden"

# --- packages ---
# The installed packages of a dpkg database, with their versions.
dpkg_versions() {
  awk -F': ' '
    function end() { if (name != "" && status !~ /(not-installed|config-files)$/) print name ":" arch "\t" version (status ~ / installed$/ ? "" : " (" status ")"); name = "" }
    /^Package: / { end(); name = $2; status = arch = version = "" }
    /^Status: / { status = $2 } /^Architecture: / { arch = $2 } /^Version: / { version = substr($0, 10) }
    END { end() }' "$1" 2>/dev/null
}
inside() { nsenter --target "$pid" --mount --root --wd -- "$@"; }
pid=$1
: >"$t/before"; : >"$t/after"; : >"$t/owned"
if [ -s /var/lib/dpkg/status ] || [ -s "$root/var/lib/dpkg/status" ]; then
  dpkg_versions /var/lib/dpkg/status >>"$t/before"
  dpkg_versions "$root/var/lib/dpkg/status" >>"$t/after"
fi
if [ -s "$kept/rpm.packages" ]; then
  cp "$kept/rpm.packages" "$t/rpm.before"
  inside rpm -qa --qf '%{NAME}:%{ARCH}\t%|EPOCH?{%{EPOCH}:}:{}|%{VERSION}-%{RELEASE}\n' >"$t/rpm.after" 2>/dev/null
  cat "$t/rpm.before" >>"$t/before"; cat "$t/rpm.after" >>"$t/after"
fi
# Kernels with several versions of a package have several lines of the same name.
sort -u "$t/before" >"$t/b"; sort -u "$t/after" >"$t/a"
{ comm -23 "$t/b" "$t/a" | sed 's/^/-\t/'; comm -13 "$t/b" "$t/a" | sed 's/^/+\t/'; } | awk -F'\t' '
  { if (!($2 in seen)) { seen[$2] = 1; names[++n] = $2 } if ($1 == "-") old[$2] = $3; else new[$2] = $3 }
  END { for (i = 1; i <= n; i++) print "software\t" names[i] "\t" old[names[i]] "\t" new[names[i]] }' >"$t/packages"
cat "$t/packages"
# On hosts with one /usr, the lists of packages may name files by their former paths.
merged=
for d in bin sbin lib lib32 lib64 libx32; do [ ! -L "/$d" ] || merged="$merged $d"; done
canonical='function canonical(p,   i) { for (i in merged) if (index(p, "/" merged[i] "/") == 1) return "/usr" p; return p }'
cut -f2 "$t/packages" | while IFS=: read -r name arch; do
  for info in /var/lib/dpkg/info "$root/var/lib/dpkg/info"; do
    for list in "$info/$name.list" "$info/$name:$arch.list"; do
      [ ! -f "$list" ] || awk -v name="$name" '{ print name "\t" $0 }' "$list"
    done
  done
done >>"$t/owned"
if [ -s "$t/rpm.before" ]; then
  cut -f2 "$t/packages" | cut -d: -f1 | sort -u >"$t/names"
  if [ -s "$t/names" ]; then
    awk -F'\t' 'FILENAME == ARGV[1] { want[$0] = 1; next } $1 in want' "$t/names" "$kept/rpm.files" >>"$t/owned"
    inside xargs -d '\n' rpm -q --qf '[%{=NAME}\t%{FILENAMES}\n]' <"$t/names" 2>/dev/null | grep -F '	' >>"$t/owned"
  fi
fi

# --- files ---
n=0
: >"$t/upper"
while n=$((n + 1)); [ -d "$upper/$n" ]; do
  at=$(cat "$upper/$n/at")
  [ "$at" != / ] || at=
  find "$upper/$n/up" -mindepth 1 ! -name '*
*' -printf "$n/up/%P\t%y %m %U %G %s %C@\t$at/%P\t%l\n" >>"$t/upper"
done
# Without what was there when the view was ready, forge's own files, and the files of packages that changed.
awk -F'\t' -v out="$t" -v merged_list="$merged" -v owned="$t/owned" -v hidden="$kept/hidden" "$canonical"'
  BEGIN { split(merged_list, merged, " ")
    while ((getline line <owned) > 0) { split(line, f, "\t"); of[canonical(f[2])] = f[1] }
    while ((getline line <hidden) > 0) { split(line, f, "\t"); points[++hides] = f[1] } }
  FILENAME == ARGV[1] { sub(/^\.\//, "", $1); baseline[$1] = $2; next }
  { path = $3
    if ($2 ~ /^d/) print path >(out "/folders")
    if ($1 in baseline && (baseline[$1] == $2 || $2 ~ /^[cd]/)) { if ($2 !~ /^d/) print path >(out "/own"); next }
    if (path ~ /^\/usr\/local\/lib\/forge-sandbox(\/|$)/ || path ~ /^\/var\/lib\/forge(\/|$)/) { print path >(out "/own"); next }
    if (path in of) { if ($2 !~ /^d/) count[of[path]]++; print path >(out "/own"); next }
    if ($2 ~ /^c/) next
    away = 0
    for (i = 1; i <= hides; i++) if (index(path, points[i] "/") == 1) away = 1
    print path "\t" $2 "\t" away "\t" $4 >(out "/rest")
    if (!away) print path >(out "/asked") }
  END { for (name in count) print "expected\t" name "\t" count[name] }' "$kept/baseline" "$t/upper"
touch "$t/rest" "$t/asked" "$t/own" "$t/folders"
xargs -d '\n' stat --printf '%n\t%F\t%a %u %g %s\n' <"$t/asked" 2>/dev/null >"$t/lower"
awk -F'\t' -v now="$t/now" -v same="$t/same" '
  function kind(f) { return f ~ /^regular/ ? "f" : f == "directory" ? "d" : f == "symbolic link" ? "l" : f == "fifo" ? "p" : f == "socket" ? "s" : "b" }
  FILENAME == ARGV[1] { was[$1] = kind($2) " " $3; next }
  { split($2, a, " ")
    time = a[6]
    if ($3 == "1" || !($1 in was)) { print "path\tcreated\t" a[1] "\t" $1 "\t" time "\t"; next }
    split(was[$1], b, " ")
    if (a[1] != b[1]) { print "path\tchanged\t" a[1] "\t" $1 "\t" time "\ttype"; next }
    detail = ""
    if (a[2] != b[2]) detail = "mode " b[2] " to " a[2]
    if (a[3] ":" a[4] != b[3] ":" b[4]) detail = detail (detail == "" ? "" : ", ") "owner " b[3] ":" b[4] " to " a[3] ":" a[4]
    if (a[1] == "f" && a[5] != b[4 + 1]) { print "path\tchanged\tf\t" $1 "\t" time "\t" detail; next }
    if (a[1] == "f" || a[1] == "l") { print $1 >same; print $1 "\t" a[1] "\t" time "\t" detail >now; next }
    if (detail != "") print "path\tattributes\t" a[1] "\t" $1 "\t" time "\t" detail }' "$t/lower" "$t/rest" >"$t/found"
touch "$t/same" "$t/now"
# Of the same size: the contents decide. A link is compared by its target.
xargs -d '\n' sha256sum -- <"$t/same" >"$t/sums.before" 2>/dev/null
(cd "$root" && sed 's,^/,,' "$t/same" | xargs -d '\n' sha256sum -- 2>/dev/null) >"$t/sums.after"
awk -F'\t' -v links="$t/links" '
  FILENAME == ARGV[1] { was[substr($0, 67)] = substr($0, 1, 64); next }
  FILENAME == ARGV[2] { is["/" substr($0, 67)] = substr($0, 1, 64); next }
  $2 == "l" { print $3 "\t" $1 >links; next }
  was[$1] != is[$1] { print "path\tchanged\t" $2 "\t" $1 "\t" $3 "\t" $4; next }
  $4 != "" { print "path\tattributes\t" $2 "\t" $1 "\t" $3 "\t" $4 }' "$t/sums.before" "$t/sums.after" "$t/now" >>"$t/found"
touch "$t/links"
while IFS='	' read -r time path; do
  [ "$(readlink "$path")" = "$(readlink "$root$path")" ] || printf 'path\tchanged\tl\t%s\t%s\t\n' "$path" "$time"
done <"$t/links" >>"$t/found"
# What a folder of the host contains and the same folder of the view does not.
{ echo; cat "$t/folders"; } | while read -r folder; do
  while IFS='	' read -r point type; do
    case $folder/ in "$point"/*) continue 2 ;; esac
  done <"$kept/hidden"
  [ -d "/$folder" ] && [ ! -L "$folder" ] || continue
  for path in "$folder"/* "$folder"/.[!.]* "$folder"/..?*; do
    [ -e "$path" ] || [ -L "$path" ] || continue
    [ -e "$root$path" ] || [ -L "$root$path" ] || printf '%s\n' "$path"
  done
done >"$t/gone"
awk -v merged_list="$merged" -v owned="$t/owned" "$canonical"'
  BEGIN { split(merged_list, merged, " "); while ((getline line <owned) > 0) { split(line, f, "\t"); of[canonical(f[2])] = 1 } }
  FILENAME == ARGV[1] { own[$0] = 1; next }
  !($0 in own) && !($0 in of) && $0 !~ /^\/(proc|sys|dev|run|tmp)\// { print "path\tremoved\t-\t" $0 "\t\t" }' "$t/own" "$t/gone" >>"$t/found"
# The packages of files that the plan does not install.
cut -f4 "$t/found" >"$t/paths"
{
  find "$root/var/lib/dpkg/info" /var/lib/dpkg/info -maxdepth 1 -name '*.list' 2>/dev/null |
    xargs -d '\n' awk -v merged_list="$merged" -v wanted="$t/paths" "$canonical"'
      BEGIN { split(merged_list, merged, " "); while ((getline line <wanted) > 0) want[line] = 1 }
      { path = canonical($0); if (path in want) { name = FILENAME; sub(/.*\//, "", name); sub(/(:[a-z0-9]+)?\.list$/, "", name); print name "\t" path } }' /dev/null
  if [ -s "$t/rpm.before" ]; then
    awk -F'\t' -v wanted="$t/paths" '
      BEGIN { while ((getline line <wanted) > 0) want[line] = 1 } $2 in want' "$kept/rpm.files"
  fi
} | sort -u >"$t/owners"
awk -F'\t' -v OFS='\t' 'FILENAME == ARGV[1] { of[$2] = $1; next } { print $0, of[$4] }' "$t/owners" "$t/found" | head -n 20000
total=$(wc -l <"$t/found")
[ "$total" -le 20000 ] || printf 'more\t%s\n' "$((total - 20000))"

# --- accounts, units and steps ---
for f in passwd group; do
  sed "s/^/$f-before	/" "/etc/$f" 2>/dev/null
  sed "s/^/$f-after	/" "$root/etc/$f" 2>/dev/null
done
cat "$kept/journal"
echo end
