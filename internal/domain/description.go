package domain

import "strings"

// descriptionGroup is the title and description that users give the VM.
var descriptionGroup = Group{
	Attributes: []Attribute{
		{
			Name: "title", Place: "title", Live: SetTitle, Why: "The title is changed while the VM runs.",
			Check: func(value string) string {
				if strings.ContainsAny(strings.TrimSpace(value), "\n\r") {
					return "A title is one line."
				}
				return ""
			},
			Doc: "Short description of the VM in one line, which `virsh list --title` shows. `\"\"`: none.",
		},
		{
			Name: "description", Place: "description", Live: SetDescription, Why: "It is changed while the VM runs.",
			Doc: "Description of the VM for people, kept in its definition. `\"\"`: none.",
		},
	},
}
