import http.client, json, numpy as np
from inferometer.server.embedded import EmbeddedTriton
from inferometer.server.repository import example_repository
from inferometer.target.cuda import *
from inferometer.target.shared_memory import *
from inferometer.target.discovery import describe_model
from inferometer.target.endpoint import Connection, Endpoint
from inferometer.target.triton_http import TritonHttp
from inferometer.model.tensor import Tensor
with EmbeddedTriton((example_repository(),), load_models=("simple","identity_fp32"), log_file=__import__("pathlib").Path("/tmp/t.log")) as server:
    host,_,port=server.http_address.rpartition(":"); target=TritonHttp(Connection(Endpoint(host,int(port))))
    for name, steps in (("identity_fp32",[[Tensor("INPUT0","FP32",(1,8),np.arange(8,dtype="<f4").tobytes())]]),("simple",[[Tensor(n,"INT32",(1,16),np.arange(16,dtype="<i4").tobytes()) for n in ("INPUT0","INPUT1")]])):
        model=describe_model(target,name,"",())
        for kind in ("system","cuda"):
          for inline in (True,False):
            placement=layout(model,steps,OutputPlaces(batch=1,unknown_size=4096,are_inline=inline),region=region_name())
            req=target.traffic(model,steps,placement).requests[0]
            with shared_region(Shared(kind,placement,steps),target):
                c=http.client.HTTPConnection(server.http_address); head,_,doc=req.partition(b"\r\n\r\n")
                n=[l for l in head.split(b"\r\n") if b"nference-Header" in l]
                for hdr in ({}, {"Inference-Header-Content-Length": str(len(doc))}):
                    c.request("POST",f"/v2/models/{name}/infer",doc,hdr); r=c.getresponse(); print(name,kind,inline,bool(hdr),r.status,r.getheader("Inference-Header-Content-Length"),r.read()[:330],flush=True)
print(open("/tmp/t.log").read()[-1500:])
