#!/usr/bin/env bash
# Runs "terraform validate" on every example: usage validate-examples.sh <terraform> <provider's binary>.
set -euo pipefail
terraform=$1 provider=$(realpath "$2")
cd "$(dirname "${BASH_SOURCE[0]}")/../../examples"

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
ln -s "$provider" "$work/terraform-provider-virtfleet"
# An override needs no init. An example without a required_providers block means hashicorp/virtfleet.
cat >"$work/terraformrc" <<RC
provider_installation {
  dev_overrides {
    "virtfleet/virtfleet" = "$work"
    "hashicorp/virtfleet" = "$work"
  }
}
RC
export TF_CLI_CONFIG_FILE=$work/terraformrc TF_DATA_DIR=$work/data

failed=0
while read -r dir; do
	if said=$("$terraform" -chdir="$dir" validate -no-color 2>&1); then
		echo "examples/${dir#./}: valid"
	else
		echo "examples/${dir#./}: $said" >&2
		failed=1
	fi
done < <(find . -name '*.tf' -printf '%h\n' | sort -u)
exit $failed
