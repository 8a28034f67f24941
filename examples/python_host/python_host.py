"""A U-Net of Halogen from Python: compiled once, then called on numpy arrays, trained, saved, and loaded again.

    ./dev demo python_host
"""
import numpy

import halogen

unet = halogen.compile(None, "UNet<2, 1, 8>")  # or ("model.hpp", "MyModel"): a header of yours
net = unet(extents=(64, 96), seed=1)

y, x = numpy.mgrid[:64, :96] / 16
field = numpy.stack([numpy.sin(x + y), numpy.cos(2 * x - y)]).astype("float32")
label = (field[:1] * field[1:]).astype("float32")

trainer = net.trainer(loss="mse", optimizer="adamw", lr=3e-3)  # compiles the training once
for step in range(30):
    loss = trainer.step(field, label)
    if step % 10 == 0:
        print(f"step {step}: loss {loss:.4f}")
net.save("unet.safetensors")  # PyTorch's names: torch can load it

again = unet(extents=(64, 96), weights="unet.safetensors")
print("the same from the file:", numpy.array_equal(again(field), net(field)))

prediction = net.infer(field, keep=True)
slope = net.vjp(2 * (prediction - label))  # the gradient of the squared error with respect to the field
print(f"gradients of shapes {slope.shape} and, of {len(net.gradients())} parameters, by their names")
print(f"{net.memory / 2**20:.1f} MiB")
