#!/usr/bin/env bash
# The rules for pages that no generator knows: links lead somewhere, and a guide is short enough to be read.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."

# A guide answers one question. What is longer is two guides.
readonly most=8192

failed=0
complain() {
	echo "$1" >&2
	failed=1
}

echo "Sizes of the guides in bytes, at most $most each:"
(cd templates/guides && wc -c -- *.md | sort -rn)

for guide in templates/guides/*.md; do
	size=$(wc -c <"$guide")
	[ "$size" -le $most ] || complain "$guide: $size bytes, at most $most: split it by task."
	grep -qF "(guides/${guide##*/})" templates/index.md.tmpl || complain "templates/index.md.tmpl doesn't link $guide."
done

for alert in $(sed -nE 's/^ *- alert: //p' examples/monitoring/rules.yaml); do
	grep -qF "| \`$alert\` |" templates/guides/alerts.md || complain "templates/guides/alerts.md has no row for $alert."
done

for source in templates/pictures/*.dot; do
	picture=docs/pictures/$(basename "$source" .dot).svg
	grep -qsF "source: $(sha256sum <"$source" | cut -d ' ' -f 1)" "$picture" ||
		complain "$picture is not what $source says now: make pictures."
done

# The paths through the code that CONTRIBUTING.md draws: a file, functions of it, what they do.
while read -r file functions; do
	for name in ${functions//,/ }; do
		grep -qsE "^func (\([^)]*\) )?$name[[(]" "$file" || complain "CONTRIBUTING.md: $file has no function $name."
	done
done < <(sed -nE 's/^ +(internal\/[^ ]+\.go) +([A-Za-z]+(, [A-Za-z]+)*)( .*|$)/\1 \2/p' CONTRIBUTING.md)

# The files, folders and declarations that its text names.
everything=$(find . -name .git -prune -o -print)
declared=$(grep -rhoE --include='*.go' '^(func (\([^)]*\) )?|type |var |const |\s+)[A-Za-z]+' internal | awk '{ print $NF }' | sort -u)
while read -r word; do
	name=${word##*.}
	case $word in
	*[!A-Za-z0-9_./-]* | *...*) ;; # a command, an address, a pattern
	*/* | *.go | *.md | *.sh | *.yaml)
		grep -qE "/${word%/}\$" <<<"$everything" || complain "CONTRIBUTING.md: $word isn't in the repository."
		;;
	*[!A-Z_]*)
		[[ $name != *[A-Z]* ]] || grep -qxF "$name" <<<"$declared" ||
			complain "CONTRIBUTING.md: no package declares $word."
		;;
	esac
done < <(sed '/^```/,/^```/d' CONTRIBUTING.md | grep -oE '`[^`]+`' | tr -d '`' | sort -u)

# The files that a package's doc.go names: of the package itself, or with their folder.
while IFS=: read -r doc name; do
	[ -e "$(dirname "$doc")/$name" ] || [[ $name == */* && -n $(find internal -path "*/$name") ]] ||
		complain "$doc: $name isn't in the repository."
done < <(grep -roE --include=doc.go '[a-z_/]+\.go\b' internal)

# Links to the repository's own files, which pages of the registry need: what they name is here.
while IFS=: read -r page path; do
	[ -e "$path" ] || complain "$page: $path isn't in the repository."
done < <(grep -roE 'terraform-provider-virtfleet/(tree|blob)/main/[^) #]+' docs README.md |
	sed -E 's|:.*/main/|:|' | sort -u)

# anchors <page> lists the anchors of its headings, as GitHub and the registry make them.
anchors() {
	sed -n 's/^##* //p' "$1" | tr '[:upper:]' '[:lower:]' | sed -E 's/[^a-z0-9 _-]//g; s/ /-/g'
	grep -oE '<a id="[^"]+"' "$1" | sed -E 's/.*"(.*)"/\1/' || true
}

outside=()
while read -r page; do
	while read -r link; do
		case $link in
		http://* | https://*)
			outside+=("$link")
			continue
			;;
		mailto:*) continue ;;
		esac
		path=${link%%#*} anchor=
		[[ $link != *#* ]] || anchor=${link#*#}
		file=$page
		[ -z "$path" ] || file=$(dirname "$page")/$path
		if [ ! -e "$file" ]; then
			complain "$page: $link leads nowhere."
		elif [ -n "$anchor" ] && [ -f "$file" ] && ! anchors "$file" | grep -qxF "$anchor"; then
			complain "$page: $link: $file has no such heading."
		fi
	done < <(sed '/^```/,/^```/d' "$page" | grep -oE '\]\([^) ]+\)' | sed -E 's/^\]\((.*)\)$/\1/')
done < <(find README.md CONTRIBUTING.md CHANGELOG.md docs examples -name '*.md' | sort)

echo "Links to other sites, which aren't followed: ${#outside[@]}. Each host with how often it is linked:"
printf '%s\n' "${outside[@]}" | awk -F / '{ print $3 }' | sort | uniq -c | sort -rn
exit $failed
