package main

import (
	"context"
	"testing"
)

// TestDispatch_help: asked for help, no command does what it does otherwise. "with" would start a lab, and run "-h"
// there.
func TestDispatch_help(t *testing.T) {
	for i, c := range commands {
		ran := false
		run := c.run
		commands[i].run = func(context.Context, []string) error { ran = true; return nil }
		for _, help := range helps {
			if err := dispatch(t.Context(), []string{c.name, help}); err != nil || ran {
				t.Errorf("lab %s %s: %v, ran %t; want its usage", c.name, help, err, ran)
			}
		}
		commands[i].run = run
	}
}
