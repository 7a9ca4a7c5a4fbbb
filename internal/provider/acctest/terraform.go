package acctest

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
)

// terraformPath is the variable that tells the testing framework which Terraform to run. Without it, the framework
// would download one.
const terraformPath = "TF_ACC_TERRAFORM_PATH"

// binary is the path of the Terraform that tests run; "": there is none.
var binary string

// Terraform returns the path of the Terraform that tests run.
func Terraform() string { return binary }

// shortcuts is what the testing framework runs in place of Terraform. It saves commands whose output no test sees:
//
//   - After each plan with changes, the framework has Terraform print the plan, for its own log, which is off. If it
//     asks for the same plan again, a test fails and shows it.
//   - The framework asks for Terraform's version twice in each test.
//
// Each of them costs as much CPU time as a plan. Terraform runs all other commands. The framework runs "plan" in the
// folder that it writes the plan to.
const shortcuts = `#!/bin/sh
case "$1 $2" in
'plan -no-color') : >tfplan.printed ;;
'show -no-color')
	if [ $# -eq 3 ] && [ -e "$3.printed" ] && [ ! -s "$3.printed" ]; then
		echo once >"$3.printed"
		exit 0
	fi ;;
'version -json')
	[ -e '%[2]s/version.json' ] || { '%[1]s' "$@" >'%[2]s'/version.$$ && mv '%[2]s'/version.$$ '%[2]s/version.json'; }
	exec cat '%[2]s/version.json' ;;
esac
exec '%[1]s' "$@"
`

// withTerraform are tests that run with the Terraform on the PATH unless told otherwise.
type withTerraform struct{ *testing.M }

// Run runs the tests.
func (m withTerraform) Run() int {
	if binary = os.Getenv(terraformPath); binary == "" {
		path, err := exec.LookPath("terraform")
		if err != nil {
			return m.M.Run() // Tests that need it say so.
		}
		binary = path
	}
	dir, err := os.MkdirTemp("", "virtfleet-acctest-")
	if err == nil {
		defer os.RemoveAll(dir) //nolint:errcheck // A folder that stays does no harm.
		err = shorten(dir)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return m.M.Run()
}

// shorten has the testing framework run Terraform through the shortcuts, which are in a folder.
func shorten(dir string) error {
	path := filepath.Join(dir, "terraform")
	if err := os.WriteFile(path, fmt.Appendf(nil, shortcuts, binary, dir), 0o700); err != nil {
		return err
	}
	return os.Setenv(terraformPath, path)
}
