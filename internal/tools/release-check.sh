#!/usr/bin/env bash
# Builds a release without a tag, and tries it as its users do: usage release-check.sh.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."

# goreleaser takes minutes to build. Where it isn't installed, a program that reads the same file does what it would do.
if command -v goreleaser >/dev/null; then
	goreleaser release --snapshot --clean --skip=sign,publish
	# It uploads this file with another name, and copies it nowhere.
	cp terraform-registry-manifest.json "dist/$(grep -o '[^ ]*_manifest.json' dist/*_SHA256SUMS)"
else
	rm -rf dist
	mkdir dist
	go -C internal/tools build -o ../../bin/release ./release
	bin/release dist
fi
cd dist
sha256sum --check --quiet ./*_SHA256SUMS
for archive in ./*.zip; do
	bill=${archive%.zip}.sbom.json
	for module in libvirt.org/go/libvirt github.com/hashicorp/terraform-plugin-framework; do
		grep -q "\"pkg:golang/$module@v" "$bill" || { echo "$bill doesn't have $module." >&2; exit 1; }
	done
done

# The container's recipe: the archive that its comment unzips is one of these, and the file that it copies is in it.
archive=$(echo ./*_linux_amd64.zip)
version=${archive%_linux_amd64.zip}
version=${version##*_}
recipe=../.ci/Dockerfile
unzips=$(sed -nE 's/^# +unzip ([^ ]+\.zip) -d release$/\1/p' "$recipe")
released=$(sed -nE 's/^# .*--build-arg VERSION=([^ ]+) .* release$/\1/p' "$recipe")
if [ "./${unzips/"_${released}_"/"_${version}_"}" != "$archive" ]; then
	echo "$recipe unzips \"$unzips\" for version \"$released\", a release has $archive." >&2
	exit 1
fi
busybox unzip -q "$archive" -d release
copies=$(sed -nE 's/^COPY ([^ ]+) .*/\1/p' "$recipe")
program=release/${copies//'${VERSION}'/$version}
[ -n "$copies" ] && [ -f "$program" ] && [ -x "$program" ] || {
	echo "$recipe copies \"$copies\", which isn't a program in $archive: $(ls -l release)" >&2
	exit 1
}

# A program that isn't linked with libvirt loads the one of the computer that it runs on.
needed=$(readelf --dynamic "$program" | grep NEEDED)
if grep libvirt <<<"$needed"; then
	echo 'The build for releases is linked with libvirt.' >&2
	exit 1
fi
# Debian 12, Ubuntu 22.04 and RHEL 9 have glibc 2.34 or later.
newest=$(readelf --version-info "$program" | grep -oE 'GLIBC_[0-9.]+' | sort -Vu | tail -n 1)
echo "The release needs $newest."
if [ "$(printf '%s\nGLIBC_2.34\n' "$newest" | sort -V | tail -n 1)" != GLIBC_2.34 ]; then
	echo 'That is newer than the documentation says.' >&2
	exit 1
fi
# It reaches libvirt: the built-in driver has one VM.
printf 'hosts:\n  local: { uri: "test:///default" }\n' >fleet.yaml
said=$(timeout --signal=INT 5 "$program" watch --config fleet.yaml || true)
grep -q 'on 1 host' <<<"$said" || { echo "The release doesn't reach libvirt: $said" >&2; exit 1; }
