"""Pictures of what a net has learned: filters, activations, saliency, Grad-CAM, features, parameters."""
