package virtualmachine

// DrawValue draws a value of an attribute: null, unknown, or made of others.
var DrawValue = drawValue
