"""Torch: tensors in and out of a model, gradients by its vjp."""
import torch


def array_of(tensor):
    """The tensor's memory on the host; bfloat16 and the like are converted."""
    tensor = tensor.detach().cpu()
    if tensor.dtype in (torch.bool, torch.uint8, torch.int8, torch.int16):
        tensor = tensor.to(torch.int64)
    elif tensor.dtype in (torch.float16, torch.bfloat16):
        tensor = tensor.float()
    return tensor.numpy()


class Apply(torch.autograd.Function):
    @staticmethod
    def forward(ctx, model, count, keeps, *tensors):
        inputs = [array_of(x) for x in tensors[:count]]
        ctx.model, ctx.inputs, ctx.count = model, inputs, count
        results = model.infer(*inputs, keep=keeps)
        ctx.call = model._calls
        results = results if isinstance(results, tuple) else (results,)
        ctx.shapes = [x.shape for x in tensors[:count]]
        ctx.types = [(x.dtype, x.device) for x in tensors]
        made = tuple(torch.from_numpy(y).to(tensors[0].device, tensors[0].dtype) for y in results)
        return made if len(made) > 1 else made[0]

    @staticmethod
    @torch.autograd.function.once_differentiable
    def backward(ctx, *gradients):
        model = ctx.model
        with model._lock:
            if model._calls != ctx.call:  # its memory was used again since: compute it once more
                model.infer(*ctx.inputs, keep=True)
            results = model.vjp(*[array_of(g).reshape(shape) for g, shape in zip(gradients, model._outputs)],
                                wanted=ctx.needs_input_grad[3 : 3 + ctx.count])
            model._calls += 1  # what was kept is spent
            results = results if isinstance(results, tuple) else (results,)
            owed = [None if g is None else torch.from_numpy(g.reshape(shape)) for g, shape in zip(results, ctx.shapes)]
            if len(ctx.types) > ctx.count:
                owed += [None if g is None else torch.from_numpy(g.copy()) for g in model.gradients().values()]
        return (None, None, None, *[None if g is None else g.to(device, dtype) for g, (dtype, device) in zip(owed, ctx.types)])


def call(model, inputs, parameters=()):
    given = [x if isinstance(x, torch.Tensor) else torch.as_tensor(x) for x in inputs]
    keeps = torch.is_grad_enabled() and any(x.requires_grad for x in (*given, *parameters))
    return Apply.apply(model, len(given), keeps, *given, *parameters)


def module(model):
    class Net(torch.nn.Module):
        """model, as a module of torch. Its parameters lie in the model's memory."""

        def __init__(self):
            super().__init__()
            self.model = model
            self.names = []
            for name, array in model.parameters().items():
                self.names.append(name.replace(".", "_"))
                self.register_parameter(self.names[-1], torch.nn.Parameter(torch.from_numpy(array)))

        def forward(self, *inputs):
            return call(self.model, inputs, [getattr(self, name) for name in self.names])

    return Net()
