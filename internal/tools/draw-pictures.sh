#!/usr/bin/env bash
# Draws docs/pictures/*.svg from templates/pictures/*.dot. Each picture ends with the checksum of its source, by which
# check-docs.sh knows a picture that is out of date, also where there is no Graphviz.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."

command -v dot >/dev/null ||
	{ echo 'Graphviz draws the pictures, and its program "dot" is not on the PATH: apt-get install graphviz' >&2; exit 1; }
mkdir -p docs/pictures
for source in templates/pictures/*.dot; do
	picture=docs/pictures/$(basename "$source" .dot).svg
	dot -Tsvg -o "$picture" "$source"
	echo "<!-- source: $(sha256sum <"$source" | cut -d ' ' -f 1) -->" >>"$picture"
done
