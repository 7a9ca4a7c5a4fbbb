#!/usr/bin/env bash
# Writes docs/ from the schema of a provider that is built already:
# usage generate-docs.sh <terraform> <provider's binary> <command that runs tfplugindocs>...
set -euo pipefail
terraform=$1 provider=$(realpath "$2")
shift 2

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
ln -s "$provider" "$work/terraform-provider-virtfleet"
# tfplugindocs looks for the schema of a provider of this namespace.
cat >"$work/terraformrc" <<RC
provider_installation {
  dev_overrides {
    "hashicorp/virtfleet" = "$work"
  }
}
RC
cat >"$work/main.tf" <<'TF'
terraform {
  required_providers {
    virtfleet = { source = "hashicorp/virtfleet" }
  }
}
TF
TF_CLI_CONFIG_FILE=$work/terraformrc "$terraform" -chdir="$work" providers schema -json >"$work/schema.json"
"$@" generate --provider-name virtfleet --providers-schema "$work/schema.json"
# It also copies other files that it finds among the pages. The pictures are drawn from these sources: see draw-pictures.sh.
rm -f docs/pictures/*.dot
