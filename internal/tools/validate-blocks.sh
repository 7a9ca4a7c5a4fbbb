#!/usr/bin/env bash
# Writes each block of configuration of the README and the guides as a module of its own, and one that calls them all:
# usage validate-blocks.sh <directory to write>. A block that is only a part of a VM becomes a VM. What a block refers to
# and doesn't declare is taken from blocks-prelude.tf.
set -euo pipefail
work=$1
cd "$(dirname "${BASH_SOURCE[0]}")/../.."

for page in README.md templates/index.md.tmpl templates/guides/*.md; do
	name=$(basename "$page" .md)
	awk -v dir="$work/${name//./-}" '
		/^ *```(terraform|hcl)$/ { file = sprintf("%s-%d.block", dir, ++blocks); inside = 1; printf "" >file; next }
		/^ *```$/ { inside = 0 }
		inside { print >file }
	' "$page"
done

required='terraform {
  required_providers {
    virtfleet = { source = "virtfleet/virtfleet" }
  }
}'
echo "$required" >"$work/main.tf"
for block in "$work"/*.block; do
	module=$(basename "$block" .block)
	# "terraform validate" reads the tests of the module that it is called for.
	if grep -q '^mock_provider ' "$block"; then
		mv "$block" "$work/$module.tftest.hcl"
		continue
	fi
	mkdir "$work/$module"
	echo "$required" >"$work/$module/required.tf"
	# The names that are required stand for what a page left out.
	if ! grep -qE '^ *name +=' "$block"; then
		sed -i 's/# \.\.\.$/name = "left-out"/' "$block"
	fi
	if head -n 1 "$block" | grep -qE '^ *[a-z_]+ += '; then
		{
			printf 'resource "virtfleet_virtual_machine" "of_the_page" {\n  name = "of-the-page"\n'
			# What creates media for a VM has to find a pool for them.
			grep -qE '^ *disks +=' "$block" || echo '  disks = { root = { pool = "vms", size = "1Gi" } }'
			cat "$block"
			echo '}'
		} >"$work/$module/block.tf"
	else
		cp "$block" "$work/$module/block.tf"
	fi
	awk -v RS= -v ORS='\n\n' -v block="$(cat "$block")" '
		{
			# resource "type" "name", data "type" "name", variable "name"
			split($0, words, /[ "]+/)
			address = words[1] == "variable" ? "var." words[2] : words[2] "." words[3]
			heading = $0
			sub(/ *\{.*/, "", heading)
			if (words[1] == "data") address = "data." address
			if (index(block, address) && !index(block, heading) && !index(block, "from = " address)) print
		}
	' internal/tools/blocks-prelude.tf >"$work/$module/prelude.tf"
	{
		printf '\nmodule "%s" {\n  source = "./%s"\n' "$module" "$module"
		# Whoever calls a module sets its variables.
		sed -nE 's/^variable "([a-z_]+)" \{$/  \1 = null/p' "$block"
		echo '}'
	} >>"$work/main.tf"
	rm "$block"
done
# A template that a block reads.
: >"$work/user-data.yaml.tftpl"
