#!/bin/sh
# Prints which tests failed, and what they said first, from reports of "go test -json". A failed test logs much more,
# and what is printed after it may be long.
set -eu

awk '
function value(key) {
	if (!match($0, "\"" key "\":\"[^\"]*\"")) return ""
	return substr($0, RSTART + length(key) + 4, RLENGTH - length(key) - 5)
}

/"Action":"output"/ && match($0, /"Output":" *[a-z0-9_]+_test\.go:[0-9]+: |"Output":"(panic: |WARNING: DATA RACE)/) {
	line = substr($0, RSTART + 10, 400)
	test = value("Package") " " value("Test")
	sub(/\\n"}$/, "", line)
	sub(/^ +/, "", line)
	if (++lines[test] <= 4) {
		said[test] = said[test] "\n    " line
		all[value("Package")] = all[value("Package")] "\n    " line
	}
}

/"Action":"fail"/ && value("Test") != "" {
	test = value("Package") " " value("Test")
	print test said[test]
	told[value("Package")] = 1
}

# A test program that ends by itself, such as at its deadline, says of no test that it failed.
/"Action":"fail"/ && value("Test") == "" && !told[value("Package")] { print value("Package") all[value("Package")] }
' "$@"
