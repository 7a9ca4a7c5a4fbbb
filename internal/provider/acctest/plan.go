package acctest

import (
	"encoding/json"
	"strings"
	"testing"

	tfjson "github.com/hashicorp/terraform-json"
)

// Actions runs a plan, and returns the actions by address: "create", "update", "delete create", "no-op", ...
func (c *CLI) Actions(t testing.TB, args ...string) map[string]string {
	t.Helper()
	actions := map[string]string{}
	for at, change := range c.Plan(t, args...) {
		actions[at] = change.Actions
	}
	return actions
}

// Change is what a plan does to a resource.
type Change struct {
	// Actions are "create", "update", "delete create", "no-op", ...
	Actions string
	// Before is the resource as it was read, and After as it will be. Unknown values are missing.
	Before, After map[string]any
}

// Plan runs a plan, and returns the changes by address. The plan is in the file "planned" and can be applied.
func (c *CLI) Plan(t testing.TB, args ...string) map[string]Change {
	t.Helper()
	changes, out, err := c.TryPlan(t, args...)
	if err != nil {
		t.Fatalf("terraform plan: %v\n%s", err, out)
	}
	return changes
}

// TryPlan is Plan for a plan that may fail. It also returns the output, as printed without a terminal.
func (c *CLI) TryPlan(t testing.TB, args ...string) (changes map[string]Change, text string, err error) {
	t.Helper()
	if text, err = c.TryText(t, append([]string{"plan", "-out=planned"}, args...)...); err != nil {
		return nil, text, err
	}
	var plan tfjson.Plan
	c.show(t, &plan, "planned")
	changes = map[string]Change{}
	for _, r := range plan.ResourceChanges {
		all := make([]string, len(r.Change.Actions))
		for i, a := range r.Change.Actions {
			all[i] = string(a)
		}
		change := Change{Actions: strings.Join(all, " ")}
		change.Before, _ = r.Change.Before.(map[string]any)
		change.After, _ = r.Change.After.(map[string]any)
		changes[r.Address] = change
	}
	return changes, text, nil
}

func (c *CLI) show(t testing.TB, v json.Unmarshaler, args ...string) {
	t.Helper()
	r := c.finish(t, append([]string{"show", "-json"}, args...)...)
	if out, err := r.Wait(); err != nil {
		t.Fatalf("terraform show: %v\n%s", err, out)
	}
	if err := v.UnmarshalJSON(r.stdout.Bytes()); err != nil {
		t.Fatalf("terraform show: %v\n%s", err, r.stdout.String())
	}
}
