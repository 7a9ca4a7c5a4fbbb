package tfdiag

import (
	"strings"

	"github.com/virtfleet/terraform-provider-virtfleet/internal/fleet"
)

// inTerraform says what to do next in the words of Terraform's users: alone, and after a remedy.
var inTerraform = map[fleet.Next]struct{ alone, after string }{
	fleet.Retry:    {"Apply again.", "Then apply again."},
	fleet.Continue: {"Apply again to continue.", "Then apply again to continue."},
	fleet.Replan:   {"Plan and apply again.", "Then plan and apply again."},
	fleet.Review: {
		alone: "Run terraform plan again, with a refresh, and check what it would do to the VM.",
		after: "Then run terraform plan again, with a refresh, and check what it would do to the VM.",
	},
	fleet.EndMaintenance: {
		alone: endMaintenance,
		after: endMaintenance,
	},
	fleet.InOrder: {inOrder, inOrder},
	fleet.DeleteFirst: {
		alone: "If the new one is to replace it, leave create_before_destroy out of its lifecycle.",
		after: "If the new one is to replace it, leave create_before_destroy out of its lifecycle.",
	},
}

// inOrder is how one apply changes a resource after another one.
const inOrder = "If this plan takes it, the apply changes both at once. It may fail here: then apply again. " +
	"To need only one apply, let this resource depend on the other (depends_on); of instances of one " +
	"resource, change the other in an apply of its own."

// endMaintenance is what to do about a maintenance of which Terraform may not know.
const endMaintenance = "If no state has the virtfleet_host_maintenance, because the run that began it was killed, " +
	"declare it and import it before: terraform import <address> <host>"

// advice returns what to do about an error of the packages below, which know nothing of Terraform: the import of what
// exists already, the remedy, and what to do after that.
func advice(remedy string, next fleet.Next, existing string) string {
	text := inTerraform[next].alone
	if remedy != "" {
		text = joinSentences(remedy, inTerraform[next].after)
	}
	if existing != "" { // The command is on a line of its own, so that it can be copied.
		text = "If a resource that has it was renamed, add a moved block, and don't import it. Otherwise, to manage what " +
			"exists, import it. If the state has the id of one that is gone at that address, first run \"terraform state rm " +
			"<address>\". The import: terraform import <address> " + existing + "\n" + text
	}
	return strings.TrimSpace(text)
}
