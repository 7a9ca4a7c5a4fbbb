#!/usr/bin/env bash
# Runs "terraform validate" on every example, and on every block of configuration that the README and the guides print:
# usage validate-examples.sh <terraform> <provider's binary>.
set -euo pipefail
terraform=$1 provider=$(realpath "$2")
root=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
ln -s "$provider" "$work/terraform-provider-virtfleet"
# Only the real address is served: a configuration that doesn't say where the provider comes from fails, as it does for
# the people who copy it.
cat >"$work/terraformrc" <<RC
provider_installation {
  dev_overrides {
    "virtfleet/virtfleet" = "$work"
  }
}
RC
export TF_CLI_CONFIG_FILE=$work/terraformrc TF_DATA_DIR=$work/data

failed=0
# validate <name> <directory>
validate() {
	if said=$("$terraform" -chdir="$2" validate -no-color 2>&1); then
		echo "$1: valid"
	else
		echo "$1: $said" >&2
		failed=1
	fi
}

cd "$root"
while read -r dir; do
	case $dir in
	examples/resources/* | examples/data-sources/*)
		# The pages of the registry show these next to a provider block: they are parts of a configuration.
		part=$work/part/$dir
		mkdir -p "$part"
		cp -r "$dir"/. "$part"
		printf 'terraform {\n  required_providers {\n    virtfleet = { source = "virtfleet/virtfleet" }\n  }\n}\n' \
			>"$part/required_providers.tf"
		validate "$dir" "$part"
		;;
	*)
		validate "$dir" "$dir"
		;;
	esac
done < <(find examples -name '*.tf' -printf '%h\n' | sort -u)

mkdir "$work/blocks"
internal/tools/validate-blocks.sh "$work/blocks"
export TF_DATA_DIR=$work/data-of-blocks
"$terraform" -chdir="$work/blocks" get >/dev/null
validate "the $(find "$work/blocks" -name block.tf | wc -l) blocks of the README and the guides" "$work/blocks"
exit $failed
