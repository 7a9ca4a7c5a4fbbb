#!/bin/sh
# Writes the modules of a Go program as a bill of materials in CycloneDX's JSON: usage sbom.sh <program> <document>.
# What is in the program says Go itself, so that it can't differ from what was built.
set -eu
go version -m "$1" | awk -F '\t' '
	function component(type, name, version, purl) {
		return sprintf("{\"type\": \"%s\", \"name\": \"%s\", \"version\": \"%s\", \"purl\": \"%s\"}", type, name, version, purl)
	}
	NR == 1 { go = $0; sub(/.*: go/, "", go); go = component("platform", "go", go, "pkg:generic/go@" go) }
	$2 == "mod" { main = component("application", $3, $4, "pkg:golang/" $3 "@" $4) }
	# A replaced module is followed by what is there in its place.
	$2 == "dep" || $2 == "=>" {
		if ($2 == "dep") n++
		all[n] = component("library", $3, $4, "pkg:golang/" $3 "@" $4)
	}
	END {
		if (main == "" || n == 0) exit 1
		printf "{\n  \"bomFormat\": \"CycloneDX\",\n  \"specVersion\": \"1.5\",\n  \"version\": 1,\n"
		printf "  \"metadata\": {\"component\": %s},\n  \"components\": [\n    %s", main, go
		for (i = 1; i <= n; i++) printf ",\n    %s", all[i]
		printf "\n  ]\n}\n"
	}' >"$2"
